"""The program: options, wiring from start to end, the data directory that it opens."""
