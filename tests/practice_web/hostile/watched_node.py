"""`toehold-node` that writes down each address to which its Python code opens a connection.

    watched_node.py FILE [options of toehold-node]

FILE gets one line for every attempt, before it is made. The node itself is the program as it is.
"""

import os
import sys

from crawler_node.program import main


def _watch(file: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "socket.connect":
            peer = arguments[1]
            address = peer[0] if isinstance(peer, tuple) else peer
            os.write(descriptor, f"{address}\n".encode())

    sys.addaudithook(note)


if __name__ == "__main__":
    _watch(sys.argv[1])
    main(sys.argv[2:], prog_name="toehold-node")
