"""How a node answers NodeService, whether it is one process or several."""
