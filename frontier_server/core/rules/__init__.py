"""Rules without a state: what a status means, how long to rest, what a URI costs, who goes first."""
