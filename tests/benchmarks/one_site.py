"""One site over https, for benchmarks: `python -m benchmarks.one_site CA_FILE PAGES`.

Page N links to the ten pages from 10N+1 on. See `serving`.
Writes the certificate of its authority, prints its port on 127.0.0.1, and answers each line of its standard
input with a line of JSON: how many requests there were, and how many TLS handshakes. Ends when standard input
does.
"""

import asyncio
import json
import os
import ssl
import sys
import threading
from collections import Counter
from pathlib import Path

import trustme
from benchmarks.serving import serve

HOST = "www.one.example"
_FILLER = "<p>" + "A page of about eight kilobytes, as many have. " * 150
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
_ROBOTS = b"User-agent: *\nAllow: /\n"


def _page(number: int, pages: int) -> bytes:
    first = 10 * number + 1
    links = "".join(f'<a href="/{each}">{each}</a>' for each in range(first, min(first + 10, pages)))
    return f"<!DOCTYPE html><title>{number}</title>{links}{_FILLER}".encode()


async def _serve(ca_file: Path, pages: int, counts: Counter[str]) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)

    def answer(host: bytes, path: bytes) -> bytes:
        counts["requests"] += 1
        if path == b"/robots.txt":
            return _HEAD % (b"text/plain", len(_ROBOTS)) + _ROBOTS
        body = _page(int(path[1:] or b"0"), pages)
        return _HEAD % (b"text/html", len(body)) + body

    await serve(answer, context, made=lambda: counts.update(("handshakes",)))


def _tell(counts: Counter[str]) -> None:
    for _ in sys.stdin:
        print(json.dumps(counts), flush=True)
    os._exit(0)


if __name__ == "__main__":
    told: Counter[str] = Counter()
    threading.Thread(target=_tell, args=(told,), daemon=True).start()
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), told))
