"""The metrics of a node of several processes: each serves its own on loopback, and these are added up.

The counts of a process that has died stay, as far as its last scrape went. A counter that went back would
look like one that began anew, and its rate would leap.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Protocol

from prometheus_client import Metric as ShownMetric
from prometheus_client.parser import text_string_to_metric_families

from toehold_base.observability.metrics import Across, MetricType
from toehold_base.observability.metrics_page import PATH, Families, MetricsPage, new_registry
from toehold_base.serving.addresses import Address, parsed_address

from .definitions import RESTARTS, SECTIONS, WORKERS

READ_S = 2.0  # for a process to answer

Labels = tuple[tuple[str, str], ...]
_ACROSS = {metric.name: metric.across for section in SECTIONS for metric in section.metrics}
_TOGETHER: dict[Across, Callable[[list[float]], float]] = {
    Across.SUM: sum,
    Across.LEAST: min,
    Across.MOST: max,
}


class Process(Protocol):
    """The part of a Worker that is read."""

    restarts: int
    """How many of its processes were replaced."""
    metrics_address: str
    """Where its metrics are; empty while no process runs."""


@dataclass(slots=True)
class _Shown:
    """A metric of several processes."""

    help: str
    kind: str
    values: dict[tuple[str, Labels], list[float]] = field(default_factory=dict)

    @property
    def lasts(self) -> bool:
        """Whether its values outlive their process."""
        return self.kind != MetricType.GAUGE


_Reading = dict[str, _Shown]  # by name


@dataclass(slots=True)
class _Last:
    """The last reading of a process, and which of a worker's processes it was."""

    life: int
    reading: _Reading


class WorkersMetrics:
    """The metrics of all processes of a node, the supervisor among them, and the page that shows them."""

    def __init__(self, address: Address, workers: Sequence[Process]) -> None:
        """Take an address. Raises OSError if it cannot be taken."""
        self._workers = workers
        self._own = new_registry()
        self._calls = ThreadPoolExecutor(len(workers), thread_name_prefix="metrics")
        self._lock = threading.Lock()
        self._last: dict[int, _Last] = {}  # by a worker's place
        self._ended: _Reading = {}  # what lasts of processes that have died
        self._page = MetricsPage(address, self)

    @property
    def address(self) -> str:
        """Where the page is, HOST:PORT."""
        return self._page.address

    def start(self) -> None:
        """Begin to answer."""
        self._page.start()

    def close(self) -> None:
        """Answer no more."""
        self._page.close()

    def collect(self) -> Iterable[ShownMetric]:
        """The metrics of all processes, added up."""
        with self._lock:  # one scrape at a time: each changes what is kept
            together: _Reading = {}
            answering = 0
            for place, (life, reading) in enumerate(self._calls.map(_read, self._workers)):
                last = self._last.get(place)
                if reading is None:
                    reading = _lasting(last.reading) if last is not None else {}
                else:
                    answering += 1
                    if last is not None and last.life != life:
                        _add(self._ended, _lasting(last.reading))
                        _sum_up(self._ended)
                    self._last[place] = _Last(life, reading)
                _add(together, reading)
            _add(together, self._ended)
            _add(together, _shown((*self._own.collect(), *self._of_supervisor(answering))))
            return [_family(name, shown) for name, shown in together.items()]

    def _of_supervisor(self, answering: int) -> Families:
        families = Families((WORKERS, RESTARTS))
        families.add(WORKERS, len(self._workers) - answering, "silent")
        families.add(RESTARTS, sum(worker.restarts for worker in self._workers))
        return families


def _read(worker: Process) -> tuple[int, _Reading | None]:
    """Which process of the worker was read, and its metrics; None if it does not answer."""
    life, text = worker.restarts, worker.metrics_address
    if not text:
        return life, None
    connection = HTTPConnection(*parsed_address(text, ""), timeout=READ_S)
    try:
        connection.request("GET", PATH)
        answer = connection.getresponse()
        text = answer.read().decode()
        return life, _shown(text_string_to_metric_families(text)) if answer.status == 200 else None
    except (OSError, HTTPException):
        return life, None
    finally:
        connection.close()


def _shown(families: Iterable[ShownMetric]) -> _Reading:
    reading: _Reading = {}
    for family in families:
        shown = reading.setdefault(family.name, _Shown(family.documentation, family.type))
        for sample in family.samples:
            key = sample.name, tuple(sample.labels.items())
            shown.values.setdefault(key, []).append(float(sample.value))
    return reading


def _lasting(reading: _Reading) -> _Reading:
    return {name: shown for name, shown in reading.items() if shown.lasts}


def _add(together: _Reading, reading: _Reading) -> None:
    for name, shown in reading.items():
        mine = together.setdefault(name, _Shown(shown.help, shown.kind))
        for key, values in shown.values.items():
            mine.values.setdefault(key, []).extend(values)


def _sum_up(reading: _Reading) -> None:
    for shown in reading.values():
        for key, values in shown.values.items():
            shown.values[key] = [sum(values)]


def _family(name: str, shown: _Shown) -> ShownMetric:
    family = ShownMetric(name, shown.help, shown.kind)
    for (sample, labels), values in shown.values.items():
        together = _TOGETHER[_ACROSS.get(sample, Across.SUM)]
        family.add_sample(sample, dict(labels), together(values))
    return family
