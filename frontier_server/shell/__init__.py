"""What drives the core: one operation at a time, write, flush, then answer; who waits; time."""
