"""The crawler node: takes leases from a frontier, fetches, extracts links, writes WARC, reports back."""
