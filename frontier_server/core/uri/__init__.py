"""URIs: canonical form, identity, scope, partition and queue."""
