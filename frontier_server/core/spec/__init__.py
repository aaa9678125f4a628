"""What a crawl is asked to do: its settings, what is wrong with them, and overrides."""
