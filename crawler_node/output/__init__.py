"""What the node keeps of a visit, and where."""
