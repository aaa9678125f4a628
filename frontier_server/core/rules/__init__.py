"""Rules without state: the meaning of statuses, rests, costs, precedence, revisits."""
