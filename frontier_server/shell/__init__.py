"""The shell drives the core: it runs one operation at a time, writes, flushes, then answers."""
