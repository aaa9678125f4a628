"""An authority with certificates, and the file of the callers: they make a small installation safe."""
