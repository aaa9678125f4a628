"""Orders to the parts of crawls, and how these are, as messages between a front and its shards."""

from toehold.shard.v1 import shard_pb2

from ..core.machines.lifecycle import CrawlState
from ..core.machines.target import Target
from ..core.rows.records import CountersRow, decode, encode
from ..core.state.order import Order, Progress, Stamp


def order_message(order: Order) -> shard_pb2.Order:
    """An order as a message."""
    return shard_pb2.Order(
        crawl=order.crawl,
        number=order.number,
        serial=order.serial,
        digest=order.digest,
        spec=order.spec,
        overrides=[shard_pb2.Override(surt_prefix=surt, spec=spec) for surt, spec in order.overrides],
        target="" if order.target is None else order.target.value,
        interrupts=order.interrupts,
        documents_lent=order.documents,
        toes_lent=order.toes,
        recrawl_ms=order.recrawl_ms,
        tears_down=order.tears_down,
        launch_ms=order.launch_ms,
    )


def order(message: shard_pb2.Order) -> Order:
    """An order of a message."""
    return Order(
        message.crawl,
        message.number,
        message.serial,
        message.digest,
        spec=message.spec if message.HasField("spec") else None,
        overrides=[(each.surt_prefix, each.spec) for each in message.overrides],
        target=Target(message.target) if message.target else None,
        interrupts=message.interrupts,
        documents=message.documents_lent,
        toes=message.toes_lent,
        recrawl_ms=message.recrawl_ms,
        tears_down=message.tears_down,
        launch_ms=message.launch_ms,
    )


def progress_message(progress: Progress) -> shard_pb2.Progress:
    """How a part is, as a message."""
    return shard_pb2.Progress(
        crawl=progress.crawl,
        number=progress.number,
        moment=progress.moment,
        order=progress.order,
        digest=progress.digest,
        state="" if progress.state is None else progress.state.value,
        held=progress.held,
        torn_down=progress.torn_down,
        reason=progress.reason,
        trouble=progress.trouble,
        counters=b"" if progress.counters is None else encode(progress.counters),
        queue_counts=progress.queues,
        leases_out=progress.leases_out,
        pages_out=progress.pages_out,
        left=progress.left,
        intakes=progress.stamp.intakes,
        leases=progress.stamp.leases,
        documents_lent=progress.documents_lent,
        toes_lent=progress.toes_lent,
        documents=progress.documents,
        starves=progress.starves,
        recrawl_ms=progress.recrawl_ms,
        nodes=progress.nodes,
        last_event=progress.last_event,
        next_rank=progress.next_rank,
    )


def progress(message: shard_pb2.Progress, incarnation: int) -> Progress:
    """How a part is, of a message from that start of its shard."""
    return Progress(
        message.crawl,
        message.number,
        message.moment,
        message.order,
        message.digest,
        CrawlState(message.state) if message.state else None,
        held=message.held,
        torn_down=message.torn_down,
        reason=message.reason,
        trouble=message.trouble,
        counters=decode(CountersRow, message.counters) if message.counters else None,
        queues=dict(message.queue_counts),
        leases_out=message.leases_out,
        pages_out=message.pages_out,
        left=message.left,
        stamp=Stamp(incarnation, message.intakes, message.leases),
        documents_lent=message.documents_lent,
        toes_lent=message.toes_lent,
        documents=message.documents,
        starves=message.starves,
        recrawl_ms=message.recrawl_ms,
        nodes=dict(message.nodes),
        last_event=message.last_event,
        next_rank=message.next_rank if message.HasField("next_rank") else None,
    )
