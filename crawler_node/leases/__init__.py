"""The node's dealings with the frontier: leases that come, and reports that go back."""
