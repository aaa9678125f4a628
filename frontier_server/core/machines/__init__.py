"""A crawl's life: the crawl machine, the frontier machine, and what drives them."""
