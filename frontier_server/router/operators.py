"""FrontierAdminService for a frontier with several shards.

What is about a crawl as a whole is answered by the coordinator's own service, of which this is a kind. What
is about URIs, queues, hosts and nodes is asked of the shards, and put together here. Jobs are the
coordinator's, and it sees to their parts: its own service answers what is about them.
"""

from .checkpoints import RoutedCheckpoints
from .crawls import RoutedCrawls
from .imports import RoutedImports
from .listings import RoutedListings
from .nodes import RoutedNodes
from .outcomes import RoutedOutcomes
from .queues import RoutedQueues
from .reasons import RoutedReasons
from .seeds import RoutedSeeds
from .uris import RoutedUris


class RoutedAdmin(
    RoutedCrawls,
    RoutedQueues,
    RoutedUris,
    RoutedListings,
    RoutedSeeds,
    RoutedReasons,
    RoutedImports,
    RoutedOutcomes,
    RoutedNodes,
    RoutedCheckpoints,
):
    """The RPCs of operators and controllers, over all shards."""
