"""The output of the node: WARC files, pages, logs, and the user's hook."""
