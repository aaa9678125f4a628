"""The frontier server: decides which URI is fetched next, and when."""
