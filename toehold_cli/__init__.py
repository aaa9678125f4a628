"""`toehold`: launches, steers, watches and inspects crawls from a shell."""
