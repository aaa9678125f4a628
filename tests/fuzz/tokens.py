"""What callers hand back: cursors, page tokens, lease tokens, masks, operators' names.

A page token is not secret, so that anybody can make one with any place in it: listings are asked for any.
"""

import functools
from pathlib import Path

from core_doubles.shell import SECRET, Shell
from google.protobuf.message import DecodeError

from frontier_server import wire
from frontier_server.core.rows import keys
from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.rows.keys import FetchStatisticsOf, Token
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, QueueSettings, ScopeSettings
from frontier_server.core.state.model import Report
from frontier_server.core.state.queue import QueueState
from frontier_server.core.state.spec_problems import problems
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, OverrideSettings
from toehold_client.errors import ToeholdError
from toehold_client.rpc.channel import checked_address
from toehold_client.spec.file import parse

from .files import SPEC
from .target import Said, Target, encodable, text_of

_STATES = (None, *QueueState)


@functools.cache
def _shell() -> Shell:
    """A crawl with queues in several states, sources, hosts and seeds."""
    shell = Shell()
    quick = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
    hosts = tuple(f"h{number}.example" for number in range(6))
    settings = CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=quick,
        scope=ScopeSettings(hosts=hosts),
        queues=QueueSettings(session_budget=1, total_budget=3),
    )
    shell.create("c", settings)
    shell.launch("c", *(f"http://{host}/{page}" for host in hosts for page in range(4)))
    for _ in range(3):
        shell.finish(*(Report(grant.token, fetch_status=404) for grant in shell.grants(most=4)))
    shell.grants(most=2)
    return shell


def _listing(data: bytes) -> Said:
    """Whatever place a token names, a page is a page, or the token is refused."""
    shell = _shell()
    operators = shell.core.administration
    how, place = data[:1], data[1:]
    number = how[0] if how else 0
    state = _STATES[number % len(_STATES)]
    reads = (
        lambda: operators.queues("c", state, 1 + number % 3, place),
        lambda: operators.uris("c", "", 1 + number % 3, place),
        lambda: operators.uris("c", "example,h1,", 1 + number % 3, place),
        lambda: operators.fetch_statistics("c", FetchStatisticsOf.HOST, 2, place),
        lambda: operators.fetch_statistics("c", FetchStatisticsOf.SOURCE, 2, place),
        lambda: operators.seeds("c", 2, int.from_bytes(place[:7], "big"), shell.now_ms),
        lambda: shell.core.history.outcomes("c", getattr(wire.outcome_place(text_of(place)), "number", 0), 2),
    )
    said: list[object] = []
    for read in reads:
        try:
            told = read()
            said.append(len(told[0]) if isinstance(told, tuple) else len(told))
        except FrontierError as refusal:
            said.append(type(refusal).__name__)
    return tuple(said)


def _page_token(data: bytes) -> Said:
    listing, _, token = encodable(data).partition("\n")
    place = wire.place_of(listing, token)
    made = wire.page_token(listing, data)
    assert wire.place_of(listing, made) == data
    assert wire.place_of(listing + "x", made) is None or not data
    return place is None


def _cursor(data: bytes) -> Said:
    """A cursor that is one of ours is written as it was read."""
    text = encodable(data)
    event, outcome = wire.event_place(text), wire.outcome_place(text)
    if event is not None:
        assert wire.event_place(wire.cursor(*event)) == event
    if outcome is not None:
        assert wire.outcome_place(wire.outcome_cursor(*outcome)) == outcome
    return event is None, outcome is None


def _lease_token(data: bytes) -> Said:
    """Only what the server made is genuine; and a report with any other token changes nothing."""
    known = keys.decode_token(data, SECRET)
    assert known is None or keys.encode_token(known, SECRET) == data
    shell = _shell()
    before = shell.core.views.statistics("c", shell.now_ms)
    (result,) = shell.finish(Report(data, fetch_status=200), node="other", session="2")
    if known is None:
        assert shell.core.views.statistics("c", shell.now_ms) == before
    return result.disposition.value


def _amended(data: bytes) -> Said:
    """A spec as bytes, and which of its fields count: it is amended and judged, or refused."""
    spec, _, paths = data.partition(b"\n\n")
    change = CrawlSpec.FromString(spec)
    try:
        made, chosen = wire.amended(b"", change, encodable(paths).split("\n") if paths else ())
    except ValueError as problem:
        return str(problem)[-20:]
    found = problems(wire.settings_with(made, ()))
    override = OverrideSettings.FromString(spec)
    said = wire.override_problems(override)
    if not said:
        said = problems(wire.settings_with(made, [spec]))
    return tuple(sorted(found))[:2], tuple(sorted(said))[:2], len(chosen)


def _address(data: bytes) -> Said:
    return bool(checked_address(text_of(data)))


_TOKEN = keys.encode_token(Token(1, b"partitio", 1 << 32, b"\1" * 8, False), SECRET)
_SPEC_BYTES = parse(SPEC.decode(), Path("spec.toml")).spec.SerializeToString()

TARGETS = (
    Target(
        "listing",
        _listing,
        (*(bytes((number,)) + b"\0" * 24 for number in range(8)), b"\1" * 26, b"\2\1" + b"\0" * 24),
        (b"\0" * 8, b"\1", b"\xff" * 8),
    ),
    Target(
        "page-token",
        _page_token,
        (b"queues\n00ff", b"uris x\n" + b"0" * 40),
        (b"00", b"ff", b" ", "١".encode()),
    ),
    Target(
        "cursor",
        _cursor,
        (b"e1-1700000000000", b"o17", b"start", b"end", b"e000"),
        (b"e", b"o", b"9" * 18, "²".encode(), "٣".encode(), b"_"),
    ),
    Target("lease-token", _lease_token, (_TOKEN, _TOKEN[:-1], b"x" * 37), (b"\0" * 8,)),
    Target(
        "spec-message",
        _amended,
        (_SPEC_BYTES, _SPEC_BYTES + b"\n\nscope.hosts\nweight"),
        (
            b"\n\n",
            b"scope",
            b".",
            b"politeness.min_delay.seconds",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\x11\0\0\0\0\0\0\xf8\x7f",
        ),
        (DecodeError,),
    ),
    Target(
        "address",
        _address,
        (b"127.0.0.1:7707", b"[::1]:1", b"frontier.example:65535"),
        (b":", b"[", b"]", b"%", b"dns:///", b"unix:"),
        (ToeholdError,),
    ),
)
