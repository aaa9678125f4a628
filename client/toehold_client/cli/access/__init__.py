"""What makes a small installation safe: an authority with certificates, and the file of the callers."""
