"""The metrics of a program: their names, and what they mean. One table describes each program's metrics; the
page that Prometheus scrapes (`metrics_page`) and docs/reference.md both follow it."""

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus


class MetricType(StrEnum):
    """The types of metrics: Prometheus' own."""

    COUNTER = "counter"
    """Only grows, from 0 at the start of the program unless its meaning says more."""
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Across(StrEnum):
    """How the values of several processes make one."""

    SUM = "sum"
    LEAST = "least"
    MOST = "most"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, by the name that a scrape shows."""

    name: str
    kind: MetricType
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets, in its unit."""
    across: Across = Across.SUM

    @property
    def unit(self) -> str:
        """The unit that its name ends in; empty if it counts things."""
        name = self.name.removesuffix("_total")
        if name.endswith("_bytes_per_second"):
            return "bytes per second"
        last = name.rpartition("_")[2]
        return last if last in ("seconds", "bytes") else ""


@dataclass(frozen=True, slots=True)
class Section:
    """Metrics that belong together, under a heading."""

    heading: str
    metrics: tuple[Metric, ...]


def counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, MetricType.COUNTER, meaning, labels)


def gauge(name: str, meaning: str, *labels: str, across: Across = Across.SUM) -> Metric:
    return Metric(name, MetricType.GAUGE, meaning, labels, across=across)


def histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...]) -> Metric:
    return Metric(name, MetricType.HISTOGRAM, meaning, labels, buckets)


# The names are those of the Prometheus client libraries, whatever the program.
PROCESS = Section(
    "process",
    (
        counter("process_cpu_seconds_total", "CPU time, of the user and of the system."),
        gauge("process_resident_memory_bytes", "Memory that is resident."),
        gauge("process_virtual_memory_bytes", "Memory that is mapped."),
        gauge("process_open_fds", "Open descriptors."),
        gauge("process_max_fds", "The limit of open descriptors.", across=Across.LEAST),
        gauge(
            "process_start_time_seconds", "When the process started, since the epoch.", across=Across.LEAST
        ),
    ),
)


_HTTP = frozenset(int(status) for status in HTTPStatus)


def status_label(status: int) -> str:
    """A fetch status as a label. There are few: a server may send any number."""
    return str(status) if status < 0 or status in _HTTP else "other"
