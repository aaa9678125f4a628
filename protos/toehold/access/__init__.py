"""Who may do what: TLS, callers, their credentials and roles; for the servers of frontier and node."""
