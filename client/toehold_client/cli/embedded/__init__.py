"""A whole crawl in one command: `toehold crawl` with a frontier server and a crawler node of its own."""
