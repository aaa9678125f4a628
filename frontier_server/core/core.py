"""The core: one shard, and a door for each kind of caller."""

from .frontier import Frontier
from .opening.shard import Shard
from .operators.administration import Administration
from .operators.control import Control
from .operators.history import History
from .operators.measures import Measures
from .operators.nodes import Nodes
from .operators.orders import Orders
from .operators.views import Views
from .upkeep import Upkeep


class Core:
    """The doors of a shard."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.frontier = Frontier(shard)  # nodes and feeders
        self.control = Control(shard)  # operators: life cycles of crawls
        self.administration = Administration(shard)  # operators: contents of crawls
        self.views = Views(shard)  # operators: descriptions and statistics of crawls
        self.history = History(shard)  # operators: events and outcomes
        self.nodes = Nodes(shard)  # operators: nodes and their toe pools
        self.orders = Orders(shard)  # a coordinator, whose crawls have parts here
        self.measures = Measures(shard)  # those who watch: numbers
        self.upkeep = Upkeep(shard)  # the server itself
