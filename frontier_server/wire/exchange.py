"""Messages for fetchers and feeders: candidates, leases, reports, fetch policies."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import crawl_pb2, frontier_pb2

from ..core.journey.candidate_problems import problem_of
from ..core.rows.errors import StoreCorrupt
from ..core.rules.disposition import Disposition
from ..core.rules.outcome_words import MAX_REASON
from ..core.state.fetch_policy import FetchPolicy, Provenance
from ..core.state.model import (
    Candidate,
    Directive,
    EmptyReason,
    Grant,
    PoolStatistics,
    Report,
    ReportResult,
    Verdict,
)
from ..core.uri.canonical import MAX_URI_BYTES, longer_than, resolved
from .specs import part
from .times import due_ms, duration, milliseconds, moment_ms

VERDICTS = {verdict: crawl_pb2.Verdict.Value(f"VERDICT_{verdict.value}") for verdict in Verdict}
DISPOSITIONS = {d: crawl_pb2.Disposition.Value(f"DISPOSITION_{d.value}") for d in Disposition}
EMPTY_REASONS = {r: frontier_pb2.EmptyReason.Value(f"EMPTY_REASON_{r.value}") for r in EmptyReason}
INVALID = frozenset((Verdict.MALFORMED, Verdict.TOO_LONG, Verdict.UNSUPPORTED_SCHEME))
MAX_PROBLEMS = 100  # in an answer
MAX_VALIDATOR_BYTES = 1024
MAX_ADDRESS_CHARACTERS = 64  # an IPv6 address with the name of an interface
_TRUNCATIONS = {
    frontier_pb2.TRUNCATION_LENGTH: "lenTrunc",
    frontier_pb2.TRUNCATION_TIME: "timeTrunc",
    frontier_pb2.TRUNCATION_FILTER: "midFetchAbort",
    frontier_pb2.TRUNCATION_DISCONNECT: "disconnectTrunc",
    frontier_pb2.TRUNCATION_UNSPECIFIED: "",
}
_OUTCOMES = frozenset((frontier_pb2.OUTCOME_FETCHED, frontier_pb2.OUTCOME_RELEASED))


class ContractCodec:
    """Stores candidates as the contract's message, untouched."""

    def decode(self, record: bytes) -> Candidate:
        """A stored candidate. Raises StoreCorrupt if it is none."""
        try:
            message = frontier_pb2.Candidate.FromString(record)
        except DecodeError as problem:
            raise StoreCorrupt(f"a stored candidate of {len(record)} bytes cannot be read") from problem
        return candidate(message, record)

    def seed(self, uri: str) -> Candidate:
        return candidate(frontier_pb2.Candidate(uri=uri, seed=True, directive=frontier_pb2.DIRECTIVE_MEDIUM))

    def refetched(self, candidate: Candidate, before_ms: int) -> Candidate:
        """A candidate that is fetched again if its URI was last fetched before this time."""
        return refetched(candidate, before_ms)


def candidate(message: frontier_pb2.Candidate, record: bytes | None = None) -> Candidate:
    """An offered candidate; `record` is the message in bytes, if the caller has it.

    A relative URI is resolved: `record` then has the resolved one alone.
    """
    if message.base and not longer_than(message.base, MAX_URI_BYTES):
        absolute = resolved(message.uri, message.base)
        if absolute is not None:
            absolute_message = frontier_pb2.Candidate()
            absolute_message.CopyFrom(message)
            absolute_message.uri = absolute
            absolute_message.ClearField("base")
            return candidate(absolute_message)
    force = moment_ms(message.refetch_before_time) if message.HasField("refetch_before_time") else None
    return Candidate(
        message.uri,
        message.SerializeToString() if record is None else record,
        via=message.via,
        path=message.path,
        directive=message.directive or (Directive.MEDIUM if message.seed else Directive.NORMAL),
        precedence=message.precedence if message.HasField("precedence") else None,
        seed=message.seed,
        refetch_before_ms=force,
        annotations=message.annotations,
        cost=message.cost if message.HasField("cost") else None,
        not_before_ms=due_ms(message.not_before_time) if message.HasField("not_before_time") else 0,
        source=message.source,
        queue_key=message.queue_key,
        base=message.base,
        redirects=message.redirects,
        cookies_sent=message.cookies_sent,
        cookies_now=message.cookies_now,
    )


def refetched(offered: Candidate, before_ms: int) -> Candidate:
    """A candidate that is fetched again if its URI was last fetched before this time."""
    message = frontier_pb2.Candidate.FromString(offered.record)
    message.refetch_before_time.FromMilliseconds(before_ms)
    return candidate(message)


def verdicts(candidates: Sequence[Candidate], found: Sequence[Verdict]) -> frontier_pb2.ScheduleResponse:
    """The verdicts on candidates, with the problems of invalid ones."""
    response = frontier_pb2.ScheduleResponse(verdicts=[VERDICTS[verdict] for verdict in found])
    for index, verdict in enumerate(found):
        if verdict in INVALID and len(response.problems) < MAX_PROBLEMS:
            problem = problem_of(candidates[index])
            if problem is not None:
                response.problems.add(index=index, problem=problem[1])
    return response


def report(message: frontier_pb2.Report) -> Report:
    problem = ""
    outcome, truncation = message.outcome, message.truncation
    if outcome not in _OUTCOMES:
        problem = f"outcome must be OUTCOME_FETCHED or OUTCOME_RELEASED, got {outcome}"
    elif truncation not in _TRUNCATIONS:
        problem = f"truncation must be a Truncation, got {truncation}"
    peer_address = message.peer_address
    if peer_address:
        try:
            peer_address = address(peer_address)
        except ValueError:
            problem = problem or (
                f"peer_address must be an IP address of at most {MAX_ADDRESS_CHARACTERS} characters,"
                f" got {peer_address[:80]!r}"
            )
            peer_address = ""
    has = message.HasField  # reading an absent message would create it
    return Report(
        message.token,
        released=outcome == frontier_pb2.OUTCOME_RELEASED,
        fetch_status=message.fetch_status,
        start_ms=moment_ms(message.start_time) if has("start_time") else 0,
        duration_ms=milliseconds(message.fetch_duration) if has("fetch_duration") else 0,
        body_bytes=message.body_bytes,
        truncated=_TRUNCATIONS.get(truncation, ""),
        media_type=message.media_type.partition(";")[0].strip(),
        digest=message.digest,
        retry_after_ms=milliseconds(message.retry_after_duration) if has("retry_after_duration") else 0,
        robots_body=message.robots_body,
        toe_number=message.toe_number,
        annotations=tuple(message.annotations),
        problem=problem,
        etag=validator(message.etag),
        last_modified=validator(message.last_modified),
        retire_queue=message.retire_queue,
        revisit_ms=due_ms(message.revisit_time) if has("revisit_time") else 0,
        peer_address=peer_address,
        robots_empty=message.robots_empty,
        reason=message.reason[:MAX_REASON],
        capture_ms=due_ms(message.capture_time) if has("capture_time") else 0,
        connections=message.connection_count,
        tls_handshakes=message.tls_handshake_count,
        kept_connections=message.kept_connection_count,
    )


@lru_cache(maxsize=1024)
def address(text: str) -> str:
    """An IP address in its canonical spelling, since hosts are grouped by it. Raises ValueError."""
    if len(text) > MAX_ADDRESS_CHARACTERS:
        raise ValueError(f"an address must have at most {MAX_ADDRESS_CHARACTERS} characters")
    found = ip_address(text)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(found)


def validator(text: str) -> str:
    """An ETag or Last-Modified; empty if it is too long. A cut one would match nothing."""
    return text if len(text.encode()) <= MAX_VALIDATOR_BYTES else ""


def results(found: Iterable[ReportResult]) -> frontier_pb2.FinishedResponse:
    """The results of reports, in their order."""
    response = frontier_pb2.FinishedResponse()
    for result in found:  # built in place: adding a finished message would copy it
        message = response.results.add()
        message.disposition = DISPOSITIONS[result.disposition]
        message.repeated = result.repeated
        message.problem = result.problem
    return response


def leases(grants: Iterable[Grant]) -> frontier_pb2.NextResponse:
    """The leases of an answer."""
    response = frontier_pb2.NextResponse()
    for grant in grants:
        _write(response.leases.add(), grant)
    return response


def _write(message: frontier_pb2.Lease, grant: Grant) -> None:
    offered = grant.candidate
    message.token = grant.token
    message.crawl = grant.crawl
    message.uri = grant.uri
    message.attempt = grant.attempt
    message.queue_key = grant.queue_key
    message.expire_time.CopyFrom(_expiry(grant.expire_ms))
    message.fetch_policy_id = grant.fetch_policy_id
    message.source = grant.source
    message.scope_version, message.seen_version = grant.versions
    if grant.etag or grant.last_modified or grant.last_digest:
        message.etag = grant.etag
        message.last_modified = grant.last_modified
        message.last_digest = grant.last_digest
    if grant.capture_ms:
        message.capture_time.FromMilliseconds(grant.capture_ms)
        message.capture_uri = grant.capture_uri
    if grant.robots:
        message.purpose = frontier_pb2.PURPOSE_ROBOTS
        message.via, message.path = offered.uri, offered.path + "P"
        return
    message.purpose = frontier_pb2.PURPOSE_PAGE
    message.via, message.path = offered.via, offered.path
    message.annotations = offered.annotations
    message.seed = offered.seed
    message.redirects = grant.redirects


@lru_cache(maxsize=64)
def _expiry(expire_ms: int) -> Timestamp:
    """The expiry of a lease, which all leases of an answer share."""
    message = Timestamp()
    message.FromMilliseconds(expire_ms)
    return message


def fetch_policy(policy: FetchPolicy) -> crawl_pb2.FetchPolicy:
    fetch, credential = policy.fetch, policy.credential
    return crawl_pb2.FetchPolicy(
        fetch_policy_id=policy.policy_id,
        user_agent=policy.user_agent,
        timeout=duration(fetch.timeout_ms),
        max_bytes=fetch.max_bytes,
        allowed_addresses=policy.allowed_addresses,
        connect_timeout=duration(fetch.connect_timeout_ms),
        read_timeout=duration(fetch.read_timeout_ms),
        accept_media_types=fetch.accept_media_types,
        reject_media_types=fetch.reject_media_types,
        max_content_length=fetch.max_content_length,
        cookies=fetch.cookies,
        proxy=fetch.proxy,
        user=credential.user if credential else "",
        password=credential.password if credential else "",
        max_bytes_per_second=policy.max_bytes_per_second,
        extract=part(policy.extract, crawl_pb2.ExtractSpec()),
        product_token=fetch.product_token,
        provenance=_provenance(policy.provenance),
        keep_alive=fetch.keep_alive,
        min_delay=duration(policy.min_delay_ms),
        headers=fetch.headers,
        referer=fetch.referer,
    )


def _provenance(whose: Provenance) -> crawl_pb2.Provenance:
    message = crawl_pb2.Provenance(
        operator=whose.operator,
        contact=whose.contact,
        description=whose.description,
        user_agent=whose.user_agent,
        robots_policy=whose.robots_policy,
    )
    message.launch_time.FromMilliseconds(whose.launch_ms)
    return message


def pool_statistics(message: frontier_pb2.PoolStatistics) -> PoolStatistics:
    """A node's counts of toe threads."""
    return PoolStatistics(
        message.size,
        message.alive_count,
        message.died_count,
        message.killed_count,
        message.abandoned_count,
    )


def toe_steps(messages: Iterable[frontier_pb2.ToeStepCount]) -> list[tuple[str, int]]:
    """How many toe threads are at each step."""
    return [(message.step[:64], message.count) for message in messages]
