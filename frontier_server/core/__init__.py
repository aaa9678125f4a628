"""The frontier's rules: plain Python over ordered bytes.

No RPC, no database, no clock, no threads, no randomness and no logging. `now_ms`
comes in as an argument; an operation returns its answer and the changes that must
be durable before the answer may leave (`frontier.Frontier`, and for operators
`operators.administration`).

A URI's journey is the reading order: `intake` (`uri`) → `enqueue` → `queue` →
`dispatch` (`host`, `robotstxt`, `rules`) → `leases` → `reports` → `conclusion`. Beside it:
`spec`, what is asked; `machines`, a crawl's life; `jobs`, work in slices; `operators`,
what people ask. Below all: `crawl` and `operation` over `records`, `keys` and `store`.
"""
