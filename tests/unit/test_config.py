"""The frontier server's settings: what is usable, what is not, and how that is told."""

from pathlib import Path

import pytest

from frontier_server.config import (
    MIB,
    ConfigError,
    ServerFile,
    default_cache_mib,
    read_file,
    usable,
)

DATA = Path("data")


@pytest.mark.parametrize("setting", ["listen", "metrics"])
def test_what_is_no_address_is_told_with_one_that_is(setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"{setting} must be HOST:PORT, such as .*:\d707, got '7707'"):
        usable(DATA, ServerFile(**{setting: "7707"}))  # type: ignore[arg-type]  # both are texts


@pytest.mark.parametrize("text", [f"lease_seconds = {'9' * 5000}", "listen = " + "[" * 100_000])
def test_a_settings_file_that_python_does_not_read_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"server\.toml: "):
        read_file(file)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost"])
def test_loopback_needs_no_consent(host: str) -> None:
    assert usable(DATA, ServerFile(listen=f"{host}:0")).listen.port == 0


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "[::]", "192.0.2.1", "example.org", "[::ffff:192.0.2.1]", "localhost.example.org", "1"],
)
def test_what_is_not_loopback_needs_consent(host: str) -> None:
    with pytest.raises(ConfigError, match="--insecure") as caught:
        usable(DATA, ServerFile(listen=f"{host}:7707"))
    assert host.strip("[]") in str(caught.value)
    assert usable(DATA, ServerFile(listen=f"{host}:7707", insecure=True)).listen.host == host.strip("[]")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "so the frontier needs TLS and callers"),
        ({"tls_cert": "c", "tls_key": "k"}, "so the frontier needs callers"),
        ({"tls_cert": "c", "tls_key": "k", "tls_ca": "a"}, "so the frontier needs callers"),
        ({"callers": "f"}, "so the frontier needs TLS"),
        ({"tls_cert": "c"}, "tls_cert needs tls_key: give a certificate and its key, or neither"),
        ({"tls_key": "k"}, "tls_key needs tls_cert: give a certificate and its key, or neither"),
        ({"tls_ca": "a"}, "tls_ca needs tls_cert and tls_key"),
    ],
)
def test_beyond_loopback_it_must_be_known_who_calls(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        usable(DATA, ServerFile(listen="0.0.0.0:7707", **given))  # type: ignore[arg-type]  # texts, all of them


def test_with_tls_and_callers_or_with_consent_any_address_will_do() -> None:
    safe = ServerFile(listen="0.0.0.0:1", tls_cert="c", tls_key="k", callers="f")
    config = usable(DATA, safe)
    assert (config.tls_cert, config.tls_key, config.tls_ca) == (Path("c"), Path("k"), None)
    assert usable(DATA, ServerFile(listen="0.0.0.0:1", insecure=True)).callers is None


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("lease_seconds", [0.0, 0.99, -1.0, 86_401.0, float("nan"), float("inf")]),
        ("heartbeat_seconds", [0.0, 0.05, 15.1, -1.0, float("nan"), float("inf")]),
        ("disk_reserve_mib", [-1]),
        ("durability", ["", "none", "POWER-LOSS"]),
        ("cache_mib", [0, -1, 1024 * 1024 + 1]),
    ],
)
def test_a_value_that_cannot_be_used_is_told_with_its_setting(setting: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(ConfigError) as caught:
            usable(DATA, ServerFile(**{setting: value}))  # type: ignore[arg-type]  # values of all kinds
        assert setting in str(caught.value) and str(value) in str(caught.value)


def test_defaults_are_those_that_the_flags_tell() -> None:
    config = usable(DATA, ServerFile())
    assert config.listen == ("127.0.0.1", 7707)
    assert (config.lease_ms, config.heartbeat_ms) == (30_000, 3_000)
    assert config.disk_reserve_bytes == 512 * 1024 * 1024
    assert config.cache_bytes == default_cache_mib() * MIB
    assert config.sync is True and config.until_stdin_ends is False


def test_bounds_themselves_are_usable() -> None:
    config = usable(DATA, ServerFile(lease_seconds=1, heartbeat_seconds=0.5, disk_reserve_mib=0))
    assert (config.lease_ms, config.heartbeat_ms, config.disk_reserve_bytes) == (1000, 500, 0)
    assert usable(DATA, ServerFile(lease_seconds=86_400)).lease_ms == 86_400_000
    assert usable(DATA, ServerFile(durability="process")).sync is False
    assert usable(DATA, ServerFile(cache_mib=1)).cache_bytes == MIB


@pytest.mark.parametrize(
    ("memory_mib", "cache_mib"), [(64, 32), (511, 32), (1024, 64), (4096, 256), (65_536, 256)]
)
def test_the_cache_is_a_share_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, memory_mib: int, cache_mib: int
) -> None:
    monkeypatch.setattr("frontier_server.config.memory_bytes", lambda: memory_mib * MIB)
    assert default_cache_mib() == cache_mib


def test_a_file_says_any_of_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "frontier.toml"
    path.write_text(
        'listen = "127.0.0.1:1"\ninsecure = true\nlease_seconds = 20\nheartbeat_seconds = 1.5\n'
        'disk_reserve_mib = 7\ndurability = "process"\ncache_mib = 9\n'
        'tls_cert = "a.crt"\ntls_key = "a.key"\ntls_ca = "ca.crt"\ncallers = "callers.toml"\n'
    )
    assert read_file(path) == ServerFile(
        listen="127.0.0.1:1",
        insecure=True,
        lease_seconds=20,
        heartbeat_seconds=1.5,
        disk_reserve_mib=7,
        durability="process",
        cache_mib=9,
        tls_cert="a.crt",
        tls_key="a.key",
        tls_ca="ca.crt",
        callers="callers.toml",
    )
    path.write_text("")
    assert read_file(path) == ServerFile()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (
            b"lease_seconds = 1\nleese_seconds = 2\n",
            "leese_seconds is not a setting; the settings are listen, ",
        ),
        (b'lease_seconds = "30"\n', 'lease_seconds must be a number, got "30"'),
        (b"insecure = 1\n", "insecure must be true or false, got 1"),
        (b"disk_reserve_mib = 1.5\n", "disk_reserve_mib must be a whole number, got 1.5"),
        (b"cache_mib = true\n", "cache_mib must be a whole number, got true"),
        (b"listen = 7707\n", "listen must be text, got 7707"),
        (b"[server]\nlisten = 1\n", "server is not a setting"),
        (b"lease_seconds 30\n", "line 1"),
        (b"\nlease_seconds = 30 # fine\nx = = 2\n", "line 3"),
        (b"a = 1 # \xff", "must be UTF-8 text, but byte 8 is not"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_the_place(
    tmp_path: Path, content: bytes, named: str
) -> None:
    path = tmp_path / "frontier.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_file(path)
    assert str(path) in str(caught.value) and named in str(caught.value)


def test_a_file_that_is_not_there_or_none_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(ConfigError) as caught:
            read_file(path)
        assert str(path) in str(caught.value)
