"""A crawl as people see it: what the command line and the console both show of it."""
