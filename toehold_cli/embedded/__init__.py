"""`toehold crawl`: a whole crawl in one command, with its own frontier server and crawler node."""
