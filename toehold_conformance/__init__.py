"""The conformance kit for fetchers: it runs a fetcher, in any language, against a frontier and a web of its
own, and judges it by what reached the two.

`kit` runs plays, `cases` has what is judged, `table` shows the result. `web` and `answers` are the web,
`tap` stands between the fetcher and the frontier and records every call, and `evidence` is what a case sees.
"""
