"""The logs of a cluster's stores, as families of metrics. One whose owner does not answer has no values."""

from collections.abc import Iterable

from toehold.shard.v1 import shard_pb2
from toehold_base.observability.metrics_page import Families

from ..stores.log_facts import QUANTILE
from . import definitions

COORDINATOR = "coordinator"
"""In place of the number of a shard: the front's own store."""


def add_logs(families: Families, logs: Iterable[tuple[str, shard_pb2.LogFacts]]) -> None:
    """Add the values of each log, under its label."""
    for label, log in logs:
        families.add(definitions.LOG_APPENDS, log.append_count, label)
        families.add(definitions.LOG_APPEND_SECONDS, log.append_seconds, label)
        if log.append_count:
            families.add(definitions.LOG_APPEND_QUANTILE, log.append_quantile_seconds, label, f"{QUANTILE}")
        families.add(definitions.LOG_TAIL_ROWS, log.tail_row_count, label)
        families.add(definitions.LOG_TAIL_RECORDS, log.tail_record_count, label)
        families.add(definitions.LOG_EPOCH, log.epoch, label)
        families.add(definitions.LOG_RESTORED, log.restored, label)
        families.add(definitions.LOG_WAITING, log.waiting_seconds, label)
        if log.HasField("replica_age_seconds"):
            families.add(definitions.LOG_REPLICA_AGE, log.replica_age_seconds, label)
        for kind, count in log.request_counts.items():
            families.add(definitions.LOG_REQUESTS, count, label, kind)
