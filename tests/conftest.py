"""Which tests come first; the signals that processes of tests obey; and Hypothesis profiles, chosen by
HYPOTHESIS_PROFILE: `ci` (the default) repeats itself, `soak` roams.
"""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
import structlog
from frontier_harness import divided, soaking
from frontier_harness.soaking import soak  # noqa: F401  a fixture of all tests
from hypothesis import HealthCheck, settings

from frontier_server.service import core_kind

# Neither judges by the wall clock: a busy machine must not fail a test.
settings.register_profile(
    "ci",
    max_examples=30,  # the same in each run; `make soak` looks for others
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak",
    max_examples=5_000,
    stateful_step_count=200,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Collection makes some millions of objects that stay. Python's garbage collector would go through them again
# and again, which took half of the time; `pytest_collection_finish` switches it on.
gc.disable()

# Whoever starts tests in the background (`nohup make test &`) has some signals ignored, and processes hand
# that on to those that they start. Tests send these, as a user at a terminal does.
for number, handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGTERM, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# The settings of whoever runs the tests are not the tests'.
for name in [name for name in os.environ if name.startswith("TOEHOLD_")]:
    if name in ("TOEHOLD_CORE", divided.VARIABLE, "TOEHOLD_TEST_S3"):
        continue
    del os.environ[name]
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"

if os.environ.get("TOEHOLD_CORE") == "compiled" and core_kind() != "compiled":
    pytest.exit("the compiled core was asked for, and is not what is imported", returncode=2)


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    """A program that runs within a test blocks signals; later tests start processes, which inherit that."""
    mask, hangup = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGHUP)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(signal.SIGHUP, hangup)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A program that runs within a test configures its log; the next test's log goes where it went before."""
    hooks = sys.excepthook, threading.excepthook
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        logging.captureWarnings(False)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
        sys.excepthook, threading.excepthook = hooks


SECONDS = "toehold/seconds"
"""Where pytest's cache has how long each file took in the last run of all tests."""

DEAR = ("simulation", "property", "faults", "acceptance", "integration")
"""The folders with the longest files, for a clone whose tests have never run."""


def longest_first(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts tests by how long their files took. The longest, begun at the end, would be waited for while
    others have nothing left to do.
    """
    cache = getattr(config, "cache", None)  # none with `-p no:cacheprovider`
    seconds: dict[str, float] = cache.get(SECONDS, {}) if cache else {}

    def rank(item: pytest.Item) -> tuple[float, int]:
        file = item.nodeid.partition("::")[0]
        folder = file.split("/")[1]
        return -seconds.get(file, 0.0), DEAR.index(folder) if folder in DEAR else len(DEAR)

    items.sort(key=rank)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Notes how long the files took, if these were all tests of `make test`."""
    if config.getoption("dist", "no") != "loadfile" or divided.SHARDS > 1:
        return
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0]
                seconds[file] = seconds.get(file, 0.0) + report.duration
    config.cache.set(SECONDS, {**config.cache.get(SECONDS, {}), **seconds})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes with a sample of the product of the lists that are marked `sampled`: as many rows as the
    longest list has, each value of each list at least once, and those of shorter ones in changing company.
    """
    names: list[str] = []
    lists: list[list[tuple[object, ...]]] = []
    for mark in metafunc.definition.iter_markers("sampled"):
        named, values = mark.args
        alone = isinstance(named, str)
        names += [named] if alone else named
        lists.append([(value,) if alone else tuple(value) for value in values])
    if lists:
        rows = range(max(map(len, lists)))
        sample = [
            tuple(value for place, each in enumerate(lists) for value in each[_turn(row, place, len(each))])
            for row in rows
        ]
        metafunc.parametrize(names, sample)


def _turn(row: int, place: int, length: int) -> int:
    """Which value of a list a row has: one after the other, and each time round one place further along."""
    return (row + place * (row // length)) % length


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Names bytes that are no text after their argument: packed ones hold the second in which they were made,
    and all processes of pytest-xdist must find tests of the same names.
    """
    return argname if isinstance(val, bytes) and not val.isascii() else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leaves that which was collected out of all later garbage collections, and lets these begin."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Begins the table of soaks."""
    soaking.begin(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the parts of the soak that nobody asked for, and puts the longest files first."""
    items[:], left = soaking.chosen(items)
    config.hook.pytest_deselected(items=left)
    divided.skip_undivided(items)
    if core_kind() == "compiled":
        for item in items:
            if item.get_closest_marker("interpreted") is not None:
                item.add_marker(pytest.mark.skip(reason="the core is compiled"))
    longest_first(config, items)
