"""Files that people hand in: specs, overrides, settings, lists, imports; and files that were damaged."""

import atexit
import functools
import gzip
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from crawler_node.control.service import listen_address
from crawler_node.output.repair import Measure, State, parts_of_lines, parts_of_records
from frontier_server import config, wire
from frontier_server.core.state.spec_problems import problems
from toehold.frontier.v1 import admin_pb2
from toehold_base.serving.addresses import parsed_address
from toehold_cli import frontier_file, import_file
from toehold_client.errors import ToeholdError
from toehold_client.spec import file as spec_file
from toehold_client.spec import listed
from toehold_client.watching.crawl_log import last_pages
from toehold_client.watching.setting_names import read_settings

from .target import Said, Target, text_of

_SOURCES = ("/frontier_server/", "/crawler_node/", "/toehold_client/")


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="toehold-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _file(data: bytes, name: str = "file") -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


def _spec(data: bytes) -> Said:
    """A spec that is read can be judged, told again, and compared with itself."""
    found = spec_file.load(_file(data, "spec.toml"))
    told = tuple(sorted(problems(wire.settings_of(found.spec)))) + tuple(wire.spec_problems(found.spec))
    spec_file.plain(found.spec)
    assert not spec_file.differences(found.spec, found.spec)
    seeds = tuple(found.seeds())
    return told[:3], bool(seeds)


def _override(data: bytes) -> Said:
    settings = spec_file.load_override(_file(data, "override.toml"))
    spec_file.override_plain(settings)
    found = wire.override_problems(settings)
    if not found:
        found = problems(wire.settings_with(b"", [settings.SerializeToString()]))
    return tuple(sorted(found))[:3]


def _assignment(data: bytes) -> Said:
    """`toehold set NAME=VALUE`."""
    spec, paths = read_settings(tuple(text_of(data).split("\n")))
    problems(wire.settings_of(spec))
    return tuple(paths)


def _server(data: bytes) -> Said:
    found = config.usable(_folder(), config.read_file(_file(data, "server.toml")))
    return found.sync, found.lease_ms.bit_length()


def _listen(data: bytes) -> Said:
    text = text_of(data)
    try:
        return (parsed_address(text, "h:1").is_loopback, bool(listen_address(text, insecure=False)))
    except ValueError as problem:
        assert "HOST:PORT" in str(problem) or "loopback" in str(problem), problem
        return (type(problem).__name__, str(problem)[:12])


def _lists(data: bytes) -> Said:
    path = _file(data, "list.txt")
    seeds = list(listed.read_seeds(path))
    spec_file.parse('surt_prefixes_file = "list.txt"\n', _folder() / "spec.toml")
    spec_file.load(_file(b'surt_prefixes_file = "list.txt"\n', "with_list.toml"))
    return bool(seeds)


def _frontier_file(data: bytes) -> Said:
    _file(data, frontier_file.NAME)
    return frontier_file.find(_folder()).address


def _import(kind: import_file.Format) -> Callable[[bytes], Said]:
    def run(data: bytes) -> Said:
        """Each line is an entry, or counted as something else."""
        read = import_file.ImportFile(_file(data, kind), kind)
        entries = list(read.entries())
        tally = read.tally
        assert len(entries) == tally.scheduled + tally.seen
        assert len(tally.first_malformed) == min(tally.malformed, import_file.MALFORMED_SHOWN)
        for entry in entries:
            admin_pb2.ImportUrisRequest(entries=[entry]).SerializeToString()
            wire.import_row(entry)
        return bool(tally.scheduled), bool(tally.seen), bool(tally.left_out), bool(tally.malformed)

    return run


def _crawl_log(data: bytes) -> Said:
    return len(last_pages(_file(data, "crawl.log"), 20))


def _damaged(measure: Measure) -> Callable[[bytes], Said]:
    def run(data: bytes) -> Said:
        """The parts of a file lie one behind the other, and are all of it."""
        at = 0
        states: Counter[State] = Counter()
        for part in measure(BytesIO(data)):
            assert part.begin == at and part.end > at, part
            at = part.end
            states[part.state] += 1
        assert at == len(data)
        return tuple(sorted((state.name, min(count, 3)) for state, count in states.items()))

    return run


SPEC = b"""name = "docs"
contact = "https://a.example/bot"
seeds = ["a.example", "http://b.example/"]
allowed_addresses = ["10.0.0.0/8", "::1/128"]
weight = 2
[scope]
hosts = ["c.example"]
surt_prefixes = ["+http://(example,a,", "-b.example/x"]
reject_patterns = ['.*[?]sort=.*']
[politeness]
delay_factor = 2.5
min_delay_seconds = 1
[retry]
statuses = [{fetch_status = 503, max_attempts = 3, delay_seconds = 9}]
[fetch]
timeout_seconds = 60.0
proxy = "http://127.0.0.1:3128"
credentials = [{surt_prefix = "a.example", user = "u", password = "p"}]
[[identity.rewrites]]
pattern = "^https"
replacement = "http"
[queues]
success_thresholds = [1, 10]
[[groups]]
name = "g"
hosts = ["d.example"]
max_parallel = 2
"""
_TOML_WORDS = (
    *(
        b"[scope]\n",
        b"[[groups]]\n",
        b"[a.b.c]\n",
        b" = ",
        b"[",
        b"]",
        b"{",
        b"}",
        b"'''",
        b'"""',
        b"#",
        b"\\u0000",
        b"\\U0010ffff",
    ),
    *(
        b"inf",
        b"-nan",
        b"1e999",
        b"0x",
        b"1_0",
        b"2023-01-01T00:00:00Z",
        b"24:00:00",
        b"true",
        b"x.y = 1\n",
        b"\xef\xbb\xbf",
    ),
    *(
        b"_seconds = ",
        b"hosts = ",
        b"statuses = ",
        b"weight = ",
        b"delay_factor = nan",
        b"[[[[[[[[",
        b"growth = inf",
    ),
)
_LOG = (
    b"2023-01-01T00:00:00.000Z   200       1256 http://a.example/ L http://b.example/ text/html #001 "
    b"20230101000000000+12 sha1:X - succeeded,x\n"
)
_JOURNAL = b"""F+ http://a.example/ LL http://b.example/
Fs http://c.example/
Ff http://d.example/
Fe http://e.example/
F+ http://f.example/ 12+LLE
"""
_EXPORT = (
    b'{"candidate": {"uri": "http://a.example/", "path": "L", "not_before_time": null}, "cost": 1, '
    b'"due_time": "2023-01-01T00:00:00Z"}\n'
)
_JSON_WORDS = (
    b'{"candidate":',
    b'"uri":',
    b'"due_time":"',
    b"null",
    b"true",
    b"[",
    b"]",
    b"{",
    b"}",
    b"1e999",
    b"NaN",
    b"Infinity",
    b"\\ud800",
    b"9999-12-31T23:59:60Z",
    b"0000-00-00",
)
_WARC = b"".join(
    gzip.compress(b"WARC/1.1\r\nWARC-Type: %s\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n" % kind, mtime=0)
    for kind in (b"warcinfo", b"response", b"request")
)
_REFUSED = (ToeholdError,)

TARGETS = (
    Target(
        "spec",
        _spec,
        (SPEC, *(b"[" + part for part in SPEC.split(b"\n[")[1:])),
        _TOML_WORDS,
        _REFUSED,
        _SOURCES,
    ),
    Target(
        "override",
        _override,
        (
            b"[politeness]\nmin_delay_seconds = 5\n[retry]\nstatuses = []\n[queues]\nretire = true\n",
            b"[host_quota]\nmax_successes = 5\n[revisit]\ngrowth = 2.0\n",
        ),
        _TOML_WORDS,
        _REFUSED,
        _SOURCES,
    ),
    Target(
        "assignment",
        _assignment,
        (
            b"limits.max_documents=1000\npoliteness.min_delay_seconds=5",
            b'scope.reject_patterns=[".*x"]',
            b"contact=",
            b"weight=2",
        ),
        _TOML_WORDS,
        (*_REFUSED, UnicodeEncodeError),
        _SOURCES,
    ),
    Target(
        "server-settings",
        _server,
        (
            b'listen = "127.0.0.1:7707"\ninsecure = false\nlease_seconds = 30.0\nheartbeat_seconds = 3\n'
            b'disk_reserve_mib = 512\ndurability = "process"\n',
        ),
        (*_TOML_WORDS, b"listen = '[::1]:1'", b"lease_seconds = inf"),
        (config.ConfigError,),
        _SOURCES,
    ),
    Target(
        "listen",
        _listen,
        (b"127.0.0.1:7707", b"[::1]:0", b"localhost:65535"),
        (b":", b"[", b"]", b"::", b"0.0.0.0:"),
    ),
    Target(
        "lists",
        _lists,
        (b"# seeds\nhttp://a.example/\n+http://(com,\n-b.example\n",),
        (b"#", b"+", b"-", b"\n", b"//"),
        _REFUSED,
    ),
    Target(
        "frontier-file",
        _frontier_file,
        (b'{"address":"127.0.0.1:1","pid":1,"crawl":"c"}',),
        _JSON_WORDS,
        _REFUSED,
    ),
    Target(
        "import-list",
        _import(import_file.Format.LIST),
        (b"http://a.example/\n#x\nb.example\n//c.example\n", gzip.compress(b"a.example\n", mtime=0)),
        (b"\n", b" ", b"#", b"http:"),
        _REFUSED,
    ),
    Target(
        "import-export", _import(import_file.Format.EXPORT), (_EXPORT, _EXPORT * 2), _JSON_WORDS, _REFUSED
    ),
    Target(
        "import-crawl-log",
        _import(import_file.Format.CRAWL_LOG),
        (_LOG, _LOG.replace(b"200", b"-4002") + _LOG),
        (b" ", b"succeeded,", b"-9998", b"http://", b"\n"),
        _REFUSED,
    ),
    Target(
        "import-journal",
        _import(import_file.Format.RECOVERY_JOURNAL),
        (_JOURNAL, gzip.compress(_JOURNAL, mtime=0)),
        (b"F+ ", b"Fs ", b"Fi ", b"999+", b"P", b"\n", b" "),
        _REFUSED,
    ),
    Target("crawl-log-end", _crawl_log, (_LOG * 3,), (b"\n", b" ", b"-", "²".encode())),
    Target(
        "damaged-warc",
        _damaged(parts_of_records),
        (_WARC, _WARC[:-9], _WARC[:60] + b"\0" * 40 + _WARC[70:]),
        (b"\x1f\x8b\x08\0\0\0\0\0", b"WARC/1.1\r\n", b"Content-Length: ", b"\r\n\r\n"),
    ),
    Target(
        "damaged-lines",
        _damaged(parts_of_lines),
        (b'{"a":1}\n{"b":2}\n{"c"', b"x\n\0\0\0\ny\n"),
        (b"\n", b"\0"),
    ),
)
