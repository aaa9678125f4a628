"""AsyncFrontierClient: a method for each RPC of a frontier, for asyncio programs.

It takes plain values and the contract's messages and returns the contract's messages. `rpc` has what each
call says, how it is cut into parts, and when it is tried again. `operators` has what operators do to a
crawl's inside.
"""

import functools
from collections.abc import AsyncIterator, Collection, Iterable, Mapping

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_client.errors import sendable
from toehold_client.rpc.arguments import several
from toehold_client.rpc.batches import split_messages
from toehold_client.rpc.contract import duration, one_for_each, stopping, tearing_down
from toehold_client.rpc.retry import RECONNECT_S
from toehold_client.rpc.uploads import SEEDS_TIMEOUT_S, SeedBatches
from toehold_client.seeds import OnRefused, accepted, check_on_refused
from toehold_client.spec.given import GivenSpec, change_of, spec_of
from toehold_client.verdicts import Verdicts

from .operators import AsyncOperators
from .streams import AsyncEventStream


class AsyncFrontierClient(AsyncOperators):
    """A frontier, for asyncio programs.

    Belongs to the event loop that it is made in. Close it, or use it as a context manager.

    `address` is HOST:PORT. `timeout_s` is how long one try of a call waits for its answer; a long poll waits
    longer, by its own time. `patience_s` is how long a call is tried again while the frontier is away or
    overloaded, or holds the crawl; with 0 it is tried once. No try begins after that time. After a broken
    connection some calls are not tried again: `create_crawl`, whose repeat would be refused, `start_job` and
    `create_checkpoint`, which might do their work twice, and `add_seeds` and `import_uris`, whose items are
    used up. `operator` is the name that the crawl's events give to whoever asked for a change
    (OperatorActed): at most 128 printable ASCII characters, by default `user@host`. `credentials` are for a
    frontier on a network; one that knows its callers takes the operator's name from them.

    Every method may raise `FrontierUnavailable`, `DeadlineExceeded`, `Overloaded`, `InvalidArgument`,
    `Unauthenticated` and `PermissionDenied`, and the errors that it names. Methods that change a crawl may
    also raise `CrawlHeld` and `CrawlTornDown`.
    """

    # for nodes and feeders

    async def schedule(
        self,
        crawl: str,
        candidates: Iterable[frontier_pb2.Candidate],
        *,
        replace: bool = False,
        partial: bool = False,
        park: bool = False,
    ) -> Verdicts:
        """Offers any number of candidates; a verdict for each, in order. Harmless to repeat.

        With `replace` they replace what the crawl has of their URIs (see ScheduleRequest). With `park` those
        whose shard is away are kept by the frontier, and have the verdict PARKED. With `partial` they have
        the verdict AWAY, or those that are not kept have, and are to be offered again; without it ShardAway
        is raised. Sends them in batches within the contract's limits. If one fails, those before it count.
        UnknownCrawl, CrawlFinished; BatchTooLarge, before anything is sent, if one candidate exceeds a
        message.
        """
        verdicts = Verdicts()
        several(candidates, "candidates", "Candidates")
        with sendable():
            make = functools.partial(
                frontier_pb2.ScheduleRequest, crawl=crawl, replace=replace, partial=partial, park=park
            )
            for batch in split_messages(candidates, envelope=make()):
                request = functools.partial(make, candidates=batch)
                answer = await self._call(lambda stubs: stubs.frontier.Schedule, request)
                verdicts.take(one_for_each(batch, answer.verdicts), answer.scope_version, answer.seen_version)
        return verdicts

    async def next(
        self,
        *,
        node: str,
        session: str,
        max_leases: int,
        wait_s: float = 0.0,
        crawl: str = "",
        known_fetch_policy_ids: Collection[str] = (),
        queues: Collection[str] = (),
        max_leases_per_queue: int = 0,
        max_queues: int = 0,
        fetcher_kinds: Collection[str] = (),
    ) -> frontier_pb2.NextResponse:
        """Asks for up to `max_leases` leases, and waits up to `wait_s` (at most 60 s) while there is none.

        Without `crawl`, of any crawl that the frontier runs. `queues` (keys or hosts), `max_leases_per_queue`
        and `max_queues` narrow the request (see NextRequest). `fetcher_kinds` are the kinds of fetchers that
        the caller is: crawls with a `fetcher` are served only to those that offer it. UnknownCrawl,
        SessionSuperseded.
        """
        several(known_fetch_policy_ids, "known_fetch_policy_ids", "names")
        several(queues, "queues", "queue keys")
        several(fetcher_kinds, "fetcher_kinds", "kinds")
        return await self._call(
            lambda stubs: stubs.frontier.Next,
            lambda: frontier_pb2.NextRequest(
                crawl=crawl,
                node=node,
                session=session,
                max_leases=max_leases,
                wait_duration=duration(wait_s),
                known_fetch_policy_ids=known_fetch_policy_ids,
                queues=queues,
                max_leases_per_queue=max_leases_per_queue,
                max_queues=max_queues,
                fetcher_kinds=fetcher_kinds,
            ),
            wait_s=wait_s,
        )

    async def finished(
        self,
        reports: Iterable[frontier_pb2.Report],
        *,
        node: str,
        session: str,
        partial: bool = False,
    ) -> list[frontier_pb2.ReportResult]:
        """Returns any number of leases with their reports; a result for each, in order. Harmless to repeat.

        With `partial` those whose shard is away have the disposition AWAY, and are to be reported again;
        without it ShardAway is raised. Sends them in batches, like `schedule`. SessionSuperseded;
        BatchTooLarge.
        """
        results: list[frontier_pb2.ReportResult] = []
        several(reports, "reports", "Reports")
        with sendable():
            make = functools.partial(
                frontier_pb2.FinishedRequest, node=node, session=session, partial=partial
            )
            for batch in split_messages(reports, envelope=make()):
                request = functools.partial(make, reports=batch)
                answer = await self._call(lambda stubs: stubs.frontier.Finished, request)
                results += one_for_each(batch, answer.results)
        return results

    async def heartbeat(
        self,
        *,
        node: str,
        session: str,
        tokens: Collection[bytes],
        toe_steps: Mapping[str, int] | None = None,
        leaving: bool = False,
        pool: frontier_pb2.PoolStatistics | None = None,
        service_address: str = "",
        trouble: str = "",
        idle_crawls: Collection[str] = (),
    ) -> frontier_pb2.HeartbeatResponse:
        """Names the leases that the node holds, started or not, and how many toe threads are at each step.

        `leaving` says that the node ends: leases that are not named go back unstarted. `pool` tells about
        lost toe threads, `service_address` where the node's NodeService listens, and `trouble` why the node
        cannot fetch. `idle_crawls` asks which of these crawls have ended.

        SessionSuperseded; BatchTooLarge.
        """
        several(tokens, "tokens", "bytes")
        several(idle_crawls, "idle_crawls", "names")
        return await self._call(
            lambda stubs: stubs.frontier.Heartbeat,
            lambda: frontier_pb2.HeartbeatRequest(
                node=node,
                session=session,
                tokens=tokens,
                toe_steps=[
                    frontier_pb2.ToeStepCount(step=step, count=count)
                    for step, count in (toe_steps or {}).items()
                ],
                leaving=leaving,
                pool=pool,
                service_address=service_address,
                trouble=trouble,
                idle_crawls=idle_crawls,
            ),
        )

    async def request_state(
        self, crawl: str, target: crawl_pb2.TargetState.ValueType
    ) -> crawl_pb2.CrawlStatus:
        """Asks a crawl to reach a state; returns at once with its present state.

        A second FINISH interrupts the fetches of a STOPPING crawl. So FINISH is not repeated if its answer is
        lost and the crawl is STOPPING or FINISHED: that is the answer then. UnknownCrawl, IllegalState,
        CrawlFinished; DiskReserve, for RUN.
        """
        request = functools.partial(frontier_pb2.RequestStateRequest, crawl=crawl, target_state=target)
        if target == crawl_pb2.TargetState.TARGET_STATE_FINISH:
            answer = await self._call_unless_done(
                lambda stubs: stubs.frontier.RequestState, request, stopping, crawl
            )
        else:
            answer = await self._call(lambda stubs: stubs.frontier.RequestState, request)
        return answer.status

    def state_events(
        self,
        crawl: str,
        cursor: str = "",
        *,
        timeout_s: float | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> AsyncEventStream:
        """A crawl's events after `cursor`: "" for those from now on, "start" for all that are kept.
        UnknownCrawl.

        The first message has the present state. Each other one has an event, or is empty every 10 s to show
        that the frontier is alive. The stream ends after the event of FINISHED, or, if the teardown was
        requested before that, of TornDown. It reconnects by itself, without gap or repeat, if the frontier is
        away no longer than `reconnect_s`; the first connection has the client's patience. With `timeout_s` it
        raises DeadlineExceeded if it has not ended by then. It raises CursorTooOld, after the present state,
        if the events after `cursor` are no longer kept.
        """
        return self._stream(
            lambda stubs: stubs.frontier.StateEvents,
            frontier_pb2.StateEventsRequest(crawl=crawl, cursor=cursor),
            what="events",
            head="present",
            timeout_s=timeout_s,
            reconnect_s=reconnect_s,
        )

    # crawls as a whole

    async def create_crawl(self, crawl: str, spec: GivenSpec) -> admin_pb2.Crawl:
        """Creates a NASCENT crawl. The spec may be a dict with the names of a spec file.

        CrawlExists, InvalidName; InvalidSpec tells all problems of the spec at once.
        """
        answer = await self._call(
            lambda stubs: stubs.admin.CreateCrawl,
            lambda: admin_pb2.CreateCrawlRequest(crawl=crawl, spec=spec_of(spec)),
            safe_to_repeat=False,
        )
        return answer.crawl

    async def add_seeds(
        self,
        crawl: str,
        uris: Iterable[str],
        *,
        on_refused: OnRefused = "raise",
        timeout_s: float = SEEDS_TIMEOUT_S,
    ) -> admin_pb2.AddSeedsResponse:
        """Adds any number of seeds, and reads them as it sends them. UnknownCrawl, CrawlFinished.

        If the frontier refuses some, it stores the others, and SeedsRefused says which and why. With
        `on_refused="report"` nothing is raised: the answer lists them.

        `timeout_s` is for all of them. The client first makes sure, with its patience, that the frontier is
        there, has the crawl and does not hold it; then it sends the seeds once. If that fails, some may have
        been stored, and adding all of them again is harmless.
        """
        check_on_refused(on_refused)
        several(uris, "seeds", "URIs")
        await self._released(crawl)
        seeds = SeedBatches(crawl, uris)
        if not seeds.has_any():
            return admin_pb2.AddSeedsResponse()
        answer = await self._upload(lambda stubs: stubs.admin.AddSeeds, seeds, timeout_s)
        return accepted(answer, on_refused)

    async def launch_crawl(
        self, crawl: str, checkpoint: str = "", checkpoint_crawl: str = ""
    ) -> crawl_pb2.CrawlStatus:
        """Starts a NASCENT crawl. UnknownCrawl, NoSeeds, IllegalState, DiskReserve.

        After a repeated try, IllegalState may mean that an earlier try succeeded; `launch` of the controller
        finds out.
        """
        answer = await self._call(
            lambda stubs: stubs.admin.LaunchCrawl,
            lambda: admin_pb2.LaunchCrawlRequest(
                crawl=crawl, checkpoint=checkpoint, checkpoint_crawl=checkpoint_crawl
            ),
        )
        return answer.status

    async def get_crawl(self, crawl: str) -> admin_pb2.Crawl:
        """Describes a crawl: its spec with all defaults, its status, and how many seeds it has.

        UnknownCrawl.
        """
        answer = await self._call(
            lambda stubs: stubs.admin.GetCrawl, lambda: admin_pb2.GetCrawlRequest(crawl=crawl)
        )
        return answer.crawl

    async def list_crawls(self) -> AsyncIterator[admin_pb2.Crawl]:
        """All crawls, by name. Asks for further pages as it is read."""
        async for page in self._pages(
            lambda stubs: stubs.admin.ListCrawls,
            admin_pb2.ListCrawlsRequest,
        ):
            for each in page.crawls:
                yield each

    async def update_crawl(self, crawl: str, spec: GivenSpec, paths: Collection[str] = ()) -> admin_pb2.Crawl:
        """Changes settings of a crawl that has not finished; its new description.

        `paths` names the settings to change, such as `limits.max_documents` or `politeness`: each gets its
        value in `spec`, or its default if `spec` has none. Without `paths`, the settings in `spec` change; if
        it is a dict, all that it names, also to an empty list.
        UnknownCrawl, CrawlFinished; InvalidSpec tells every problem, and every fixed setting, and then
        nothing has changed.
        """
        several(paths, "paths", "names of settings")
        settings, changing = change_of(spec, paths)
        answer = await self._call(
            lambda stubs: stubs.admin.UpdateCrawl,
            lambda: admin_pb2.UpdateCrawlRequest(
                crawl=crawl, spec=settings, update_mask=FieldMask(paths=changing)
            ),
        )
        return answer.crawl

    async def reopen_crawl(
        self,
        crawl: str,
        spec: GivenSpec | None = None,
        paths: Collection[str] = (),
        *,
        pause: bool = False,
        recrawl_before: Timestamp | None = None,
    ) -> admin_pb2.Crawl:
        """Lets a crawl that has FINISHED run again, with what it left in its queues; its new description.

        First it changes settings, as `update_crawl` does: usually a limit that the crawl has reached. With
        `pause` the crawl is PAUSED then, and URIs can be added before it runs. UnknownCrawl, InvalidSpec;
        IllegalState unless the crawl has FINISHED, and while a limit is still reached; DiskReserve. With
        `recrawl_before` a recrawl begins: the limits count from now on, and what is imported to be fetched
        again with this time and DIRECTIVE_HIGH counts as pages to visit again.
        """
        several(paths, "paths", "names of settings")
        settings, changing = (None, paths) if spec is None else change_of(spec, paths)
        answer = await self._call(
            lambda stubs: stubs.admin.ReopenCrawl,
            lambda: admin_pb2.ReopenCrawlRequest(
                crawl=crawl,
                spec=settings,
                update_mask=FieldMask(paths=changing),
                pause=pause,
                recrawl_before_time=recrawl_before,
            ),
        )
        return answer.crawl

    async def tear_down_crawl(self, crawl: str) -> admin_pb2.TearDownCrawlResponse:
        """Ends a crawl, if necessary, and removes it from the frontier's memory. Returns at once.

        The stored data stay until the crawl is deleted. The frontier does it once, however many ask; `begun`
        tells who was first, unless that answer is lost. If the crawl is STOPPING, its fetches are
        interrupted. UnknownCrawl.
        """
        return await self._call_unless_done(
            lambda stubs: stubs.admin.TearDownCrawl,
            lambda: admin_pb2.TearDownCrawlRequest(crawl=crawl),
            tearing_down,
            crawl,
        )

    async def delete_crawl(self, crawl: str, *, force: bool = False) -> None:
        """Deletes a crawl that is NASCENT or FINISHED, and all its stored data. `force` deletes any crawl.

        UnknownCrawl, CrawlActive.
        """
        await self._call(
            lambda stubs: stubs.admin.DeleteCrawl,
            lambda: admin_pb2.DeleteCrawlRequest(crawl=crawl, force=force),
        )

    async def get_statistics(self, crawl: str) -> admin_pb2.GetStatisticsResponse:
        """A crawl's statistics, and its status at the same moment. UnknownCrawl."""
        return await self._call(
            lambda stubs: stubs.admin.GetStatistics, lambda: admin_pb2.GetStatisticsRequest(crawl=crawl)
        )

    async def get_frontier(self) -> admin_pb2.GetFrontierResponse:
        """Describes the server: its version, its limits, the nodes that it has seen."""
        return await self._call(lambda stubs: stubs.admin.GetFrontier, admin_pb2.GetFrontierRequest)

    async def get_caller(self) -> admin_pb2.GetCallerResponse:
        """Tells who the client is to the frontier: name, roles, crawls, and the RPCs that it may call."""
        return await self._call(lambda stubs: stubs.admin.GetCaller, admin_pb2.GetCallerRequest)

    async def create_checkpoint(self) -> admin_pb2.Checkpoint:
        """Saves the present state of all crawls. Overloaded, DiskReserve."""
        answer = await self._call(
            lambda stubs: stubs.admin.CreateCheckpoint,
            admin_pb2.CreateCheckpointRequest,
            safe_to_repeat=False,
        )
        return answer.checkpoint

    async def list_checkpoints(self) -> AsyncIterator[admin_pb2.Checkpoint]:
        """All checkpoints, the oldest first."""
        async for page in self._pages(
            lambda stubs: stubs.admin.ListCheckpoints,
            admin_pb2.ListCheckpointsRequest,
        ):
            for each in page.checkpoints:
                yield each

    async def delete_checkpoint(self, checkpoint: str) -> None:
        """Deletes a checkpoint. UnknownCheckpoint; CheckpointInUse."""
        await self._call(
            lambda stubs: stubs.admin.DeleteCheckpoint,
            lambda: admin_pb2.DeleteCheckpointRequest(checkpoint=checkpoint),
        )

    async def set_pool_size(self, size: int | None, node: str = "") -> None:
        """Sets how many toe threads nodes have, 0 to 10 000: the node with this name, or all.

        A node's own number overrides that of all. None removes the setting. Nodes follow with their next
        heartbeat, new ones with their first.
        """
        await self._call(
            lambda stubs: stubs.admin.SetPoolSize, lambda: admin_pb2.SetPoolSizeRequest(node=node, size=size)
        )

    async def drain_node(self, node: str) -> None:
        """Asks a node to finish its work and end: with its next heartbeat it takes no more leases, finishes
        what it has started, and returns the rest. This counts for its present process; a repeat has no
        effect. UnknownNode.
        """
        await self._call(lambda stubs: stubs.admin.DrainNode, lambda: admin_pb2.DrainNodeRequest(node=node))

    async def forget_node(self, node: str) -> None:
        """Forgets a node that is LOST or has LEFT, so that listings no longer have it. If it calls again, it
        is known again. UnknownNode; NodePresent while it is PRESENT or SILENT.
        """
        await self._call(lambda stubs: stubs.admin.ForgetNode, lambda: admin_pb2.ForgetNodeRequest(node=node))
