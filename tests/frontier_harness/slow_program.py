"""The program, whose jobs rest between any two slices: `slow_program.py SECONDS [flags …]`."""

import sys

from frontier_server.program.program import main
from frontier_server.shell import runner

if __name__ == "__main__":
    rest_s, *flags = sys.argv[1:]
    vars(runner)["MIN_PAUSE_S"] = vars(runner)["MAX_PAUSE_S"] = float(rest_s)
    main(flags)
