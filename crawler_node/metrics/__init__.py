"""What a node tells Prometheus. `definitions` names it, `kept` keeps what it did, `page` reads the rest at a
scrape, and `workers` adds up the processes of a node."""
