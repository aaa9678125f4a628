"""The console: a page in the browser for the crawls of a frontier, and the contract as JSON over HTTP.

It is a client like any other. `program` serves it, `app` has its routes; `door` makes a browser's calls in
the browser's own name.
"""
