"""Access to servers, frontier and node alike: TLS, callers, their credentials and roles."""
