"""Hypothesis profiles, chosen by HYPOTHESIS_PROFILE: `ci` (the default) repeats itself, `soak` roams."""

import os

from hypothesis import HealthCheck, settings

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
