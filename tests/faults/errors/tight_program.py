"""The server with buffers that are full after some hundred rows, so that writes stall when flushes are slow:
`tight_program.py [flags …]`.
"""

import sys

from frontier_server.program import program
from frontier_server.stores import rocks

KIB = 1024

if __name__ == "__main__":
    vars(rocks).update(LOG_BYTES=64 * KIB, WRITE_BUFFER_BYTES=64 * KIB, ALL_WRITE_BUFFERS_BYTES=0)
    program.main(sys.argv[1:])
