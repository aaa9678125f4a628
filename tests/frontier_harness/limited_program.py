"""The program, with so many descriptors and no more: `limited_program.py SOFT HARD [flags …]`."""

import resource
import sys

from frontier_server.program.program import main

if __name__ == "__main__":
    soft, hard, *flags = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(soft), int(hard)))
    main(flags)
