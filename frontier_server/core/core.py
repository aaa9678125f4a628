"""All that the core does, by who asks: one shard, under its doors."""

from .crawl import SettingsOf
from .frontier import Frontier
from .jobs.restoring import CheckpointOf
from .model import CandidateCodec
from .operators.administration import Administration
from .operators.control import Control
from .operators.history import History
from .operators.nodes import Nodes
from .operators.views import Views
from .shard import Shard, no_checkpoint
from .store import Store
from .upkeep import Upkeep


class Core:
    """The doors of a shard. `Shard` says what each parameter is."""

    def __init__(
        self,
        store: Store,
        codec: CandidateCodec,
        settings_of: SettingsOf,
        version: str,
        period_ms: int,
        now_ms: int,
        incarnation: int,
        checkpoint_of: CheckpointOf = no_checkpoint,
    ) -> None:
        self.shard = Shard(
            store,
            codec,
            settings_of=settings_of,
            version=version,
            period_ms=period_ms,
            now_ms=now_ms,
            incarnation=incarnation,
            checkpoint_of=checkpoint_of,
        )
        self.frontier = Frontier(self.shard)  # nodes and feeders
        self.control = Control(self.shard)  # operators: the lives of crawls
        self.administration = Administration(self.shard)  # operators: what is in crawls
        self.views = Views(self.shard)  # operators: descriptions and statistics of crawls
        self.history = History(self.shard)  # operators: events and outcomes
        self.nodes = Nodes(self.shard)  # operators: nodes and their toe pools
        self.upkeep = Upkeep(self.shard)  # the server itself
