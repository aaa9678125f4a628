"""The metrics of the frontier: calls that it measures (`rpcs`), and the numbers in memory at a scrape
(`crawls`, `shards`, `log`, `store`). `definitions` names all of it; `page` serves it."""
