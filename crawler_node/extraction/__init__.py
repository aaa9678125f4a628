"""The links and the text of a fetched document."""
