"""Servers without TCP's and TLS's manners."""

import asyncio

from practice_web.hostile.nastiness import LEAF, Nastiness, Visit, head, link, page, says, says_and_waits

CONNECT_FAILED, CONNECT_LOST, TIMEOUT, PROTOCOL_ERROR, NO_ROBOTS = -2, -3, -4, -10, -61


async def _reset(visit: Visit) -> None:
    await visit.reader.read(1)  # lest the crawler is still connecting
    visit.reset()


async def _reset_in_body(visit: Visit) -> None:
    await visit.send(head(length=100_000), b"<p>" * 1000)
    await asyncio.sleep(0.05)  # lest the crawler never sees what came before
    visit.reset()


async def _never_answer(visit: Visit) -> None:
    await visit.until_gone()


async def _last_page(visit: Visit) -> None:
    visit.close_listener()
    await page(link("/later"))(visit)


_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x28"
_TLS_RECORD_TO_COME = b"\x16\x03\x03\x40\x00"


def _tls(name: str, does: str, certificate: str) -> Nastiness:
    return Nastiness(name, does, {"/": CONNECT_FAILED}, {"/": LEAF}, certificate=certificate)


CONNECTIONS = (
    Nastiness(
        "closed-port",
        "refuses connections after its first page",
        {"/": 200, "/later": CONNECT_FAILED},
        {"/": _last_page},
    ),
    Nastiness(
        "silence",
        "takes connections and never answers, robots.txt included",
        {"/robots.txt": TIMEOUT, "/": NO_ROBOTS},
        greet=_never_answer,
        rude=True,
    ),
    Nastiness("silent-page", "takes a request and never answers", {"/": TIMEOUT}, {"/": _never_answer}),
    Nastiness(
        "half-a-head",
        "falls silent within the head",
        {"/": TIMEOUT},
        {"/": says_and_waits(b"HTTP/1.1 200 OK\r\nContent-Ty")},
    ),
    Nastiness(
        "half-a-body",
        "falls silent within the body",
        {"/": 200, "/behind": 200},
        {"/": says_and_waits(head(length=10_000), b"<p>Half of", link("/behind").encode()), "/behind": LEAF},
        notes=("timeTrunc",),
    ),
    Nastiness("hang-up", "hangs up without an answer", {"/": CONNECT_LOST}, greet=says()),
    Nastiness(
        "one-lost-page",
        "hangs up on one of several pages",
        {"/": 200, "/lost": CONNECT_LOST, "/next": 200, "/last": 200},
        {
            "/": page(link("/lost") + link("/next") + link("/last")),
            "/lost": says(),
            "/next": LEAF,
            "/last": LEAF,
        },
    ),
    Nastiness("reset", "resets every connection", {"/": CONNECT_LOST}, greet=_reset),
    Nastiness(
        "reset-in-body",
        "resets within the body",
        {"/": 200},
        {"/": _reset_in_body},
        notes=("disconnectTrunc",),
    ),
    Nastiness(
        "tls-half-a-body",
        "falls silent within the body, over TLS",
        {"/": 200, "/behind": 200},
        {"/": says_and_waits(head(length=10_000), b"<p>Half of", link("/behind").encode()), "/behind": LEAF},
        certificate="good",
        notes=("timeTrunc",),
    ),
    _tls("tls-expired", "shows a certificate that has expired", "expired"),
    _tls("tls-other-host", "shows a certificate of another host", "of-another-host"),
    _tls("tls-unknown-authority", "shows a certificate of an unknown authority", "of-nobody"),
    _tls("tls-self-signed", "shows a self-signed certificate", "self-signed"),
    Nastiness(
        "tls-plain",
        "speaks HTTP instead of TLS",
        {"/": CONNECT_FAILED},
        greet=says(head(), b"<p>This is not TLS."),
        certificate="good",
    ),
    Nastiness(
        "tls-stall",
        "falls silent within the handshake",
        {"/": CONNECT_FAILED},
        greet=says_and_waits(_TLS_RECORD_TO_COME),
        certificate="good",
    ),
    Nastiness(
        "tls-alert",
        "refuses the handshake",
        {"/": CONNECT_FAILED},
        greet=says(_TLS_ALERT),
        certificate="good",
    ),
    Nastiness(
        "tls-hang-up",
        "hangs up within the handshake",
        {"/": CONNECT_FAILED},
        greet=says(),
        certificate="good",
    ),
)
