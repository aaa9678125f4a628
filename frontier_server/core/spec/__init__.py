"""The settings of a crawl, and their table."""
