"""A program's page of metrics, and the Prometheus that scrapes it."""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .ports import KeptPort
from .waiting import PATIENCE_S, eventually

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"
ABSENT = "{} is neither on PATH nor in build/: install Prometheus, or run `make prometheus` where apt-get is"

Labels = frozenset[tuple[str, str]]


@dataclass
class Page:
    """A page of metrics."""

    kinds: dict[str, str] = field(default_factory=dict)
    """The types of all metrics, by name as documented."""
    labels: dict[str, set[str]] = field(default_factory=dict)
    """The names of their labels, of those that have values."""
    values: dict[tuple[str, Labels], float] = field(default_factory=dict)
    """All samples."""

    def of(self, name: str, **labels: str) -> float:
        """A value."""
        return self.values[name, frozenset(labels.items())]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of the values that have some labels."""
        wanted = labels.items()
        return sum(value for (known, own), value in self.values.items() if known == name and wanted <= own)


def page_at(address: str) -> Page:
    """The page that a program serves."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    page = Page()
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        page.kinds[name] = family.type
        for sample in family.samples:
            page.labels.setdefault(name, set()).update(sample.labels.keys() - {"le"})
            page.values[sample.name, frozenset(sample.labels.items())] = sample.value
    return page


def tool(name: str) -> str | None:
    """A program of Prometheus'; None if this machine has none."""
    return shutil.which(name) or (str(UNPACKED / name) if (UNPACKED / name).exists() else None)


def needed(name: str) -> str:
    """A program of Prometheus'; skips the test if this machine has none."""
    found = tool(name)
    if found is None:
        pytest.skip(ABSENT.format(name))
    return found


class Prometheus:
    """A Prometheus within a `with` block. It is configured as ours is, and scrapes a frontier and a node very
    often."""

    def __init__(self, folder: Path, frontier: str, node: str) -> None:
        self._folder = folder
        config = (MONITORING / "prometheus.yml").read_text()
        for old, new in {
            "15s": "250ms",
            "127.0.0.1:9707": frontier,
            "127.0.0.1:9708": node,
            "- alerts.yml": f"- {MONITORING / 'alerts.yml'}",
        }.items():
            assert old in config, old
            config = config.replace(old, new)
        folder.mkdir()
        (folder / "prometheus.yml").write_text(config)
        self._port = KeptPort()
        self.address = self._port.address

    def __enter__(self) -> Self:
        with (self._folder / "log").open("w") as log:
            self._child = subprocess.Popen(
                [
                    needed("prometheus"),
                    f"--config.file={self._folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            eventually(self._is_ready, "Prometheus is ready")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()
        self._port.close()

    def _is_ready(self) -> bool:
        assert self._child.poll() is None, (self._folder / "log").read_text()
        try:
            return len(self.query("up == 1")) == 2
        except OSError:
            return False

    def query(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """The labels and values of an expression, now."""
        answer = self.get("query", query=expression)
        return [(each["metric"], float(each["value"][1])) for each in answer["result"]]

    def get(self, what: str, **parameters: str) -> Any:
        """The answer of its API."""
        url = f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]
