"""Statuses that nobody asked for, or that go on for ever."""

from practice_web.hostile.nastiness import Nastiness, answers, says

_SORRY = b"<p>Sorry."


def _status(name: str, does: str, status: int, line: str, *headers: str) -> Nastiness:
    return Nastiness(name, does, {"/": status}, {"/": answers(_SORRY, *headers, status=line)})


_PATIENCE, _CHALLENGE = "429 Too Many Requests", "401 Unauthorized"

STATUSES = (
    Nastiness(
        "unasked-304",
        "answers that nothing has changed, unasked",
        {"/": 304},
        {"/": says(b"HTTP/1.1 304 Not Modified\r\n\r\n")},
    ),
    _status(
        "unasked-206", "sends a part, unasked", 206, "206 Partial Content", "Content-Range: bytes 5-12/9999"
    ),
    _status(
        "endless-401", "asks for a password forever", 401, _CHALLENGE, 'WWW-Authenticate: Basic realm="x"'
    ),
    _status(
        "endless-digest",
        "forever answers that the nonce is stale",
        401,
        _CHALLENGE,
        'WWW-Authenticate: Digest realm="x", nonce="n", qop="auth", stale=true',
    ),
    _status(
        "odd-challenge",
        "asks for a password in garbage",
        401,
        _CHALLENGE,
        'WWW-Authenticate: Digest "=,,"qop=' + "x" * 5000,
    ),
    _status(
        "endless-407",
        "asks for a proxy's password although it is no proxy",
        407,
        "407 Proxy Authentication Required",
    ),
    _status("endless-503", "is always unavailable", 503, "503 Service Unavailable"),
    _status(
        "retry-in-ten-years",
        "asks for a wait of ten years",
        429,
        _PATIENCE,
        f"Retry-After: {10 * 365 * 86400}",
    ),
    _status("retry-in-minus-ten", "asks to come back ten seconds ago", 429, _PATIENCE, "Retry-After: -10"),
    _status(
        "retry-some-day",
        "asks to come back on a date that does not exist",
        429,
        _PATIENCE,
        "Retry-After: Thu, 99 Foo 9999 99:99:99 GMT",
    ),
    _status(
        "retry-in-9999",
        "asks to come back in the year 9999",
        503,
        "503 Later",
        "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT",
    ),
    _status("retry-digits", "asks for a wait with 5000 digits", 429, _PATIENCE, "Retry-After: " + "9" * 5000),
    _status("location-on-200", "has a page that names itself as its Location", 200, "200 OK", "Location: /"),
)
