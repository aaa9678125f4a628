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
from frontier_harness import soaking
from frontier_harness.soaking import soak  # noqa: F401  a fixture of all tests
from hypothesis import HealthCheck, settings

from frontier_server.service import core_kind

# Neither judges by the wall clock: a busy machine must not fail a test.
settings.register_profile(
    "ci",
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
for name in [name for name in os.environ if name.startswith("TOEHOLD_") and name != "TOEHOLD_CORE"]:
    del os.environ[name]
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"

if os.environ.get("TOEHOLD_CORE") == "compiled" and core_kind() != "compiled":
    pytest.exit("the compiled core was asked for, and is not what is imported", returncode=2)


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


LONGEST_FILES = (
    "test_simulation.py",
    "test_processes.py",
    "test_live.py",
    "test_frontier_machine.py",
    "test_console_browser.py",
    "test_embedded_crawl.py",
    "test_embedded_going_on.py",
    "test_failure_is_told.py",
    "test_going_on.py",
    "test_reach_for.py",
    "test_cookbook.py",
    "test_replay.py",
    "test_asking_directory.py",
    "test_nodes_are_told_truly.py",
    "test_power.py",
    "test_scrapy.py",
    "test_conformance.py",
    "test_interrupt.py",
    "test_by_hand.py",
    "test_errors.py",
    "test_cut_off.py",
    "test_worn_out.py",
    "test_crawl.py",
    "test_watch.py",
    "test_console_live.py",
    "test_full_disk.py",
    "test_node_disk_low.py",
    "test_logs_ahead.py",
    "test_absence.py",
    "test_backup.py",
    "test_extremes.py",
    "test_salvage.py",
    "test_output.py",
    "test_attendance.py",
    "test_scrapy_spiders.py",
    "test_pool_under_load.py",
    "test_server_job_log.py",
    "test_server_process.py",
    "test_sitemap.py",
    "test_hostile_web.py",
    "test_traces.py",
    "test_checkpoints.py",
    "test_complete_site.py",
    "test_records.py",
    "test_decode.py",
    "test_lives.py",
    "test_frontier_kills.py",
    "test_example_spec.py",
    "test_watchers.py",
    "test_server_tasks.py",
    "test_life_command_line.py",
    "test_pause_under_load.py",
    "test_server_restart.py",
    "test_descriptors.py",
    "test_strangers.py",
    "test_warc.py",
    "test_nodes.py",
    "test_log_holes.py",
    "test_controllers.py",
    "test_bad_network.py",
    "test_wrong_clock.py",
)
"""Those that take more than 8 s, longest first. Begun at the end, with few tests each, they would be waited
for while others have nothing left to do."""


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
    rank = {name: number for number, name in enumerate(LONGEST_FILES)}
    items[:], left = soaking.chosen(items)
    config.hook.pytest_deselected(items=left)
    if core_kind() == "compiled":
        for item in items:
            if item.get_closest_marker("interpreted") is not None:
                item.add_marker(pytest.mark.skip(reason="the core is compiled"))
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
