"""Waiting for what other threads and processes do, as tests of the frontier do."""

from frontier_harness.waiting import PATIENCE_S as PATIENCE_S
from frontier_harness.waiting import eventually as eventually
