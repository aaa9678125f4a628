"""A crawl's spec as TOML, and the contract's messages as plain values."""
