"""How a node is asked about itself and told what to do: by one process, or by several that are one node."""
