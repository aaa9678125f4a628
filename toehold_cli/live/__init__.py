"""A crawl shown live: what there is to see, where it is shown, and how it is laid out."""
