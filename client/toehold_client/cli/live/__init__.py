"""A live view of a crawl: what is looked at, how it is laid out, where it is shown."""
