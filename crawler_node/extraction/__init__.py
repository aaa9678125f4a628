"""What a fetched document links to, and what it says."""
