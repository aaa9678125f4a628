"""A fetch: from a URI to what was answered, whatever a network or a server does."""
