"""toehold-urlfrontier: URLFrontier's API over a Toehold frontier."""
