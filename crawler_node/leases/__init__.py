"""What a node has to do with the frontier: leases that come, and what goes back for each."""
