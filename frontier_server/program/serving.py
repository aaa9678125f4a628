"""One process that serves a store, from valid settings to its exit code."""

from toehold_base.access.callers import Callers
from toehold_base.access.privacy import warn_if_open
from toehold_base.access.server_tls import ServerTls
from toehold_base.durable import make_own_directory
from toehold_base.process.service_manager import ServiceManager

from ..cluster.identity import ClusterUnusable, Superseded
from ..config import Config
from ..core.rows.errors import OtherFormat, StoreCorrupt
from ..core.rows.store import StoreDamaged, StoreFailed
from ..core.salvage.division import Unequal
from ..logs.log_check import CannotKeep
from ..replicated.buckets import BucketFailed, BucketUnusable, open_bucket, probe
from ..replicated.log import LogFailed
from ..service import version
from ..stores.logged import LogFence, LoggedStore, LogNeeded
from ..stores.rocks import StoreUnavailable
from ..stores.unchanged import StoreInUse
from . import cluster_splitting, salvaging, splitting
from .data_directory import open_data, open_data_unchanged
from .exits import EXIT_DAMAGED, EXIT_DATA, EXIT_FENCED, EXIT_IN_USE, EXIT_LISTEN, EXIT_SPLIT, EXIT_STORE, end
from .listeners import CannotListen
from .server import serve
from .shard_map import whole_around
from .supervisor import locked


def serve_store(
    config: Config, tls: ServerTls | None, callers: Callers | None, manager: ServiceManager, secret: bytes
) -> None:
    """Serve the store of the data directory until asked to stop. Ends the program if that goes wrong."""
    data, way_out = config.data, _way_out(config)
    try:
        store, clock = open_data_unchanged(config) if config.read_only else open_data(config, secret)
    except StoreInUse as problem:
        end(EXIT_IN_USE, f"data directory {data}: {problem}")
    except LogFence as problem:
        end(EXIT_FENCED, str(problem))
    except Superseded as problem:
        end(EXIT_SPLIT, str(problem))
    except (StoreUnavailable, OtherFormat, LogNeeded, LogFailed, BucketUnusable) as problem:
        end(EXIT_DATA, f"data directory {data}: {problem}")
    except BucketFailed as problem:
        end(EXIT_STORE, str(problem))
    except (StoreDamaged, StoreCorrupt) as problem:
        end(EXIT_DAMAGED, f"data directory {data}: the store is damaged: {problem}; {way_out}")
    except OSError as problem:
        end(EXIT_DATA, f"data directory {data} cannot be used: {problem.strerror}")
    except StoreFailed as problem:
        end(EXIT_STORE, f"data directory {data}: {problem}")
    warn_if_open(data)
    try:
        failure = serve(config, store, clock, tls, callers, manager)
    except CannotListen as problem:
        store.close()
        end(EXIT_LISTEN, str(problem))
    except (CannotKeep, OtherFormat) as problem:
        end(EXIT_DATA, f"data directory {data}: {problem}")
    except StoreDamaged as problem:
        end(EXIT_DAMAGED, f"data directory {data}: the store is damaged: {problem}; {way_out}")
    except StoreCorrupt as problem:
        again = f"start again; if that fails too, {way_out}"
        end(EXIT_DAMAGED, f"data directory {data}: the store contradicts itself: {problem}; {again}")
    except LogFence as problem:
        end(EXIT_FENCED, str(problem))
    except StoreFailed as problem:  # before it served
        end(EXIT_STORE, f"data directory {data}: {problem}")
    if store.damage and isinstance(store, LoggedStore):
        end(EXIT_STORE, f"the store is damaged ({store.damage}); the next start restores it from its log")
    if store.damage:
        end(EXIT_DAMAGED, f"data directory {data}: the store is damaged ({store.damage}); {way_out}")
    if isinstance(store, LoggedStore) and store.fence:
        end(EXIT_FENCED, store.fence)
    if failure:
        end(EXIT_STORE, f"{failure}; the frontier stopped, so that it acknowledges only stored changes")
    store.close()


def salvage(config: Config, secret: bytes) -> None:
    """Salvage the store of the data directory. Ends the program if that goes wrong."""
    try:
        salvaging.salvage(config, version(), secret, lambda line: print(line, flush=True))
    except (StoreUnavailable, OtherFormat) as problem:
        end(EXIT_DATA, f"data directory {config.data}: {problem}")
    except StoreDamaged as problem:
        end(EXIT_DAMAGED, f"data directory {config.data}: {problem}; {_replacement(config)}")
    except (OSError, StoreFailed) as problem:
        end(EXIT_DATA, f"data directory {config.data}: the store cannot be salvaged: {problem}")


def split(config: Config) -> None:
    """Double the shards of the data directory. Ends the program if that goes wrong."""
    data = config.data
    try:
        with locked(data):
            splitting.split(data, lambda line: print(line, flush=True))
    except BlockingIOError:
        end(EXIT_DATA, f"data directory {data} is in use by a frontier; stop it first")
    except (StoreUnavailable, OtherFormat, Unequal) as problem:
        end(EXIT_DATA, f"data directory {data}: {problem}")
    except (StoreDamaged, StoreCorrupt) as problem:
        end(EXIT_DAMAGED, f"data directory {data}: a store is damaged: {problem}; salvage it first")
    except (OSError, StoreFailed) as problem:
        end(EXIT_DATA, f"data directory {data} cannot be split: {problem}")


def split_cluster(config: Config) -> None:
    """Double the shards of a cluster, by a directory for its stores. Ends the program if that goes wrong."""
    data, way_out = config.data, "run the command again to complete it"
    try:
        bucket = open_bucket(config.log)
        probe(bucket)
        make_own_directory(data)
        with locked(data):
            cluster_splitting.split(bucket, data, version(), lambda line: print(line, flush=True))
    except (BucketUnusable, ClusterUnusable) as problem:
        end(EXIT_DATA, f"log {config.log} {problem}")
    except BlockingIOError:
        end(EXIT_DATA, f"data directory {data} is in use by a frontier, or another split")
    except cluster_splitting.Taken as problem:
        end(EXIT_DATA, f"log {config.log} cannot be split: {problem}; stop all machines, then {way_out}")
    except (BucketFailed, LogFailed) as problem:
        end(EXIT_STORE, f"log {problem}; {way_out}")
    except (StoreUnavailable, OtherFormat, Unequal) as problem:
        end(EXIT_DATA, f"log {config.log} cannot be split: {problem}")
    except (StoreDamaged, StoreCorrupt) as problem:
        end(EXIT_DAMAGED, f"log {config.log} cannot be split, as a store is damaged: {problem}")
    except (OSError, StoreFailed) as problem:
        end(EXIT_DATA, f"data directory {data}: {problem}; {way_out}")


def _way_out(config: Config) -> str:
    """What to do about a damaged store."""
    own = f"--data {config.data} --salvage" if config.member else "--salvage"
    return f"start once with {own} to keep all rows that can be read, or {_replacement(config)}"


def _replacement(config: Config) -> str:
    """What can take the place of a damaged store. A member's checkpoint does not fit to the other members:
    the pages that led to its URIs are done."""
    if config.member or whole_around(config.data) is not None:
        return "put a checkpoint set in the place of all members' stores"
    return "put a checkpoint in its place"
