"""The metrics of a node. `definitions` names them, `kept` keeps what the node did, `page` reads the rest at a
scrape, and `workers` adds up the processes of a node."""
