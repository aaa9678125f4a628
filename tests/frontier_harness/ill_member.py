"""A frontier of several shards, one of which ends at each start: `ill_member.py MEMBER CODE [flags …]`."""

import sys

from frontier_server.program import program, supervisor

if __name__ == "__main__":
    member, code, *flags = sys.argv[1:]
    supervisor.PROGRAM = (__file__, member, code)
    if "--member" in flags and flags[flags.index("--member") + 1] == member:
        sys.exit(int(code))
    program.main(flags)
