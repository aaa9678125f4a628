"""What a URI is: its canonical form, what makes it the same as another, where it belongs and lives."""
