"""deploy/monitoring: rules, configuration and dashboard say what promtool and the programs understand."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.metrics import MONITORING, needed

from crawler_node.metrics import definitions as node
from frontier_server.metrics import definitions as frontier
from toehold_base.observability.metrics import Metric, MetricType

METRICS: dict[str, Metric] = {
    metric.name: metric for section in (*frontier.SECTIONS, *node.SECTIONS) for metric in section.metrics
}
# A series of ours, and the labels that it is chosen by.
SERIES = re.compile(r"\b((?:toehold|process)_[a-z_]+)\b(?:\{([^}]*)\})?")


def series() -> set[str]:
    """The names of all series that Prometheus gets from the programs."""
    found = set()
    for metric in METRICS.values():
        ends = ("_bucket", "_sum", "_count") if metric.kind is MetricType.HISTOGRAM else ("",)
        found |= {metric.name + end for end in ends}
    return found


def expressions() -> Iterator[str]:
    """Every expression of the dashboard, and the texts of the alerts and their histories."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query")
    yield from ((MONITORING / file).read_text() for file in ("alerts.yml", "alerts_test.yml"))


def test_every_series_of_dashboard_and_alerts_exists_with_its_labels() -> None:
    known, used = series(), set[str]()
    for expression in expressions():
        for name, selector in SERIES.findall(expression):
            assert name in known, name
            metric = METRICS.get(name) or METRICS[re.sub(r"_(bucket|sum|count)$", "", name)]
            asked = set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\s*\"", selector))
            assert asked <= {*metric.labels, "job", "instance", "le"}, (name, selector)
            used.add(metric.name)
    left = (
        METRICS.keys()
        - used
        - {"process_virtual_memory_bytes", "process_max_fds", "process_start_time_seconds"}
    )
    assert left == set(), "the dashboard shows every metric but these"


def test_the_panels_of_the_dashboard_lie_side_by_side_and_have_numbers_of_their_own() -> None:
    panels: list[dict[str, Any]] = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_promtool_accepts_the_rules_and_the_configuration() -> None:
    promtool("check", "rules", "alerts.yml")
    promtool("check", "config", "prometheus.yml")


def test_each_alert_fires_in_one_history_and_stays_quiet_in_others() -> None:
    promtool("test", "rules", "alerts_test.yml")
    alerts = re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    histories = (MONITORING / "alerts_test.yml").read_text().split("alertname: ")[1:]
    fires = {text.split()[0] for text in histories if text.split()[1:2] == ["exp_alerts:"]}
    quiet = {text.split()[0] for text in histories if text.split()[1:2] != ["exp_alerts:"]}
    assert fires == quiet == set(alerts)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 0.25\n        for: 10m", "> 25\n        for: 10m"),
        ('state="RUNNING"} == 1', 'state="RUNNING"} == 0'),
    ],
)
def test_an_alert_that_is_changed_fails_its_history(tmp_path: Path, old: str, new: str) -> None:
    for file in ("alerts.yml", "alerts_test.yml"):
        text = (MONITORING / file).read_text()
        assert file != "alerts.yml" or old in text
        (tmp_path / file).write_text(text.replace(old, new))
    asked = [needed("promtool"), "test", "rules", "alerts_test.yml"]
    assert subprocess.run(asked, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def promtool(*arguments: str) -> None:
    """Runs promtool, which must be content."""
    done = subprocess.run(
        [needed("promtool"), *arguments], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
