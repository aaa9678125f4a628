"""The frontier's rules: plain Python over ordered bytes.

No RPC, no database, no clock, no threads, no randomness and no logging. `now_ms`
comes in as an argument; an operation returns its answer and the changes that must
be durable before the answer may leave (`frontier.Frontier`).

A URI's journey is the reading order: `intake` (`canonical`, `scope`, `assign`) →
`queue` → `dispatch` (`robots`, `politeness`) → `leases` → `reports`
(`disposition`) → `outcomes`; a crawl's life is `lifecycle` over `target`.
"""
