"""`python logged_frontier.py URL APPENDS …`: an undivided frontier server whose store has a log in a bucket.

So that a bench sees what the log costs, and nothing of machines. At its end it writes into the file APPENDS
how long each append took, in seconds, as JSON.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from frontier_server.__main__ import main
from frontier_server.config import Config
from frontier_server.program import data_directory, server
from frontier_server.replicated.buckets import open_bucket
from frontier_server.replicated.object_log import ObjectLog
from frontier_server.replicated.replicas import Replicas
from frontier_server.stores.logged import LoggedStore, open_logged

NAME = "bench"
url, appends = sys.argv[1:3]
took_s: list[float] = []


class TimedLog(ObjectLog):
    """Notes how long appends take."""

    def append(self, payload: bytes) -> int:
        began_s = time.perf_counter()
        number = super().append(payload)
        took_s.append(time.perf_counter() - began_s)
        return number


def opened(config: Config) -> LoggedStore:
    bucket = open_bucket(url)
    log = TimedLog(bucket, NAME, "0123456789abcdef", "bench")
    return open_logged(config.data, log, Replicas(bucket, NAME), "bench", config.cache_bytes, 0)


def no_mark(store: Any) -> None:
    return


for module, name, instead in (
    (data_directory, "_opened", opened),
    (data_directory, "mark_of", no_mark),
    (server, "archive_of", lambda config, store: None),
):
    setattr(module, name, instead)
try:
    sys.argv[1:3] = []
    main()
finally:
    Path(appends).write_text(json.dumps(took_s))
