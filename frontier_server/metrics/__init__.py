"""What the frontier tells Prometheus: calls that it measures (`rpcs`), and what memory has at a scrape
(`crawls`, `store`). `definitions` names all of it; `page` serves it."""
