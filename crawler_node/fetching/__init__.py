"""A fetch: from a URI to an answer, whatever the network or the server does."""
