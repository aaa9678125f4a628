"""The frontier server: owns what is fetched next, and when."""
