"""`toehold-node` with a clock at its stages: `python -m benchmarks.timed_node`, with the program's options.

When it has been stopped, it tells by one line of JSON what CPU its threads used in each stage, in seconds.
To read the clock costs a few microseconds a page.
"""

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from crawler_node.fetching.http_fetch import HttpFetcher
from crawler_node.leases.reporter import Reporter
from crawler_node.meter import Meter
from crawler_node.output.archive import Archive
from crawler_node.program import main
from crawler_node.toes.chain import Stages, ToeChain

_P = ParamSpec("_P")
_T = TypeVar("_T")

STAGES = ("fetch", "extract", "WARC", "report")

_used_s: dict[str, float] = dict.fromkeys(STAGES, 0.0)
_lock = threading.Lock()


def _timed(stage: str, work: Callable[_P, _T]) -> Callable[_P, _T]:
    def work_timed(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        since_s = time.thread_time()
        try:
            return work(*args, **kwargs)
        finally:
            used_s = time.thread_time() - since_s
            with _lock:
                _used_s[stage] += used_s

    return work_timed


_make_chain = ToeChain.__init__


def _make_timed_chain(chain: ToeChain, stages: Stages, meter: Meter) -> None:
    _make_chain(chain, dataclasses.replace(stages, outlinks=_timed("extract", stages.outlinks)), meter)


if __name__ == "__main__":
    for owner, method, work in (
        (HttpFetcher, "fetch", _timed("fetch", HttpFetcher.fetch)),
        (HttpFetcher, "fetch_robots", _timed("fetch", HttpFetcher.fetch_robots)),
        (ToeChain, "__init__", _make_timed_chain),
        (Archive, "append", _timed("WARC", Archive.append)),
        (Reporter, "run", _timed("report", Reporter.run)),
    ):
        setattr(owner, method, work)
    try:
        main()
    except SystemExit as ended:
        if not ended.code:
            print(json.dumps(_used_s), flush=True)
        raise
