"""A program with so many descriptors and no more, whose patience with silent callers is short,
and which has room for few watches of its health:
`hasty_program.py MODULE DESCRIPTORS [flags …]`, where MODULE has the program's `main`."""

import importlib
import resource
import sys

from toehold_base.serving import connections, open_services

HANDSHAKE_S, IDLE_S = 1.0, 2.0
WATCHES = 16

if __name__ == "__main__":
    module, limit, *flags = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit), int(limit)))
    connections.HANDSHAKE_S, connections.IDLE_S = HANDSHAKE_S, IDLE_S
    open_services.MAX_WATCHES = WATCHES
    importlib.import_module(module).main(flags)
