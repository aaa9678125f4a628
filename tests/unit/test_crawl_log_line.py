"""A line of crawl.log: twelve columns whatever a node or a page put into them (Heritrix 2.15)."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontier_server.core.journey.conclusion import LAST_MS
from frontier_server.core.rows.records import OutcomeRow
from frontier_server.logs.crawl_log import line

MOMENT_MS = 1_700_000_000_123  # 2023-11-14T22:13:20.123Z


def outcome(**more: Any) -> OutcomeRow:
    fields: dict[str, Any] = {
        "time_ms": MOMENT_MS,
        "uri": "http://a.example/x",
        "fetch_status": 200,
        "disposition": "SUCCEEDED",
    }
    return OutcomeRow(**(fields | more))


def columns(row: OutcomeRow) -> list[str]:
    """The columns, as anybody's tools split them; the line is one line to all of them."""
    text = line(row).decode()
    assert text.endswith("\n") and len(text.splitlines()) == 1, text
    found = text.split()
    assert len(found) == 12, text
    assert found == [column for column in text[:-1].split(" ") if column]
    return found


def test_the_columns_are_heritrixs() -> None:
    row = outcome(
        body_bytes=1234,
        path="LLE",
        via="http://a.example/",
        media_type="text/html",
        node="n1",
        toe_number=7,
        start_ms=MOMENT_MS - 1500,
        duration_ms=1400,
        digest="sha1:ABC",
        annotations=("2t", "lenTrunc"),
    )
    assert line(row) == (
        b"2023-11-14T22:13:20.123Z   200       1234 http://a.example/x LLE http://a.example/ text/html "
        b"#007 20231114221318623+1400 sha1:ABC - succeeded,2t,lenTrunc,node:n1\n"
    )


def test_what_there_is_not_is_a_dash() -> None:
    row = outcome(fetch_status=-9998, disposition="DISREGARDED")
    assert columns(row)[1:] == ["-9998", "0", row.uri, "-", "-", "-", "-", "-", "-", "-", "disregarded"]


@pytest.mark.parametrize(
    ("hops", "shown"), [(50, "L" * 50), (51, "1+" + "L" * 50), (2048, "1998+" + "L" * 50)]
)
def test_of_a_long_path_the_last_fifty_hops_are_shown(hops: int, shown: str) -> None:
    assert columns(outcome(path="L" * hops))[4] == shown


HOSTILE = [
    *("a b", "a\nb", "a\r\nb 200 0 http://forged.example/ - - - - - - - succeeded", "a\tb\vc\fd", "a\x00b"),
    *("a\x1c\x1d\x1e\x85b", "a\N{NO-BREAK SPACE}b\N{LINE SEPARATOR}c\N{PARAGRAPH SEPARATOR}d", " "),
    *("\n", "\N{PILE OF POO}"),
]


@pytest.mark.sampled("text", HOSTILE)
@pytest.mark.sampled("field", ["via", "media_type", "digest", "node"])
def test_blanks_and_line_ends_in_what_others_sent_end_no_column(field: str, text: str) -> None:
    plain = columns(outcome())
    found = columns(outcome(**{field: text}))
    place = {"via": 5, "media_type": 6, "digest": 9, "node": 11}[field]
    assert found[:place] == plain[:place] and found[place + 1 :] == plain[place + 1 :]


def test_a_comma_in_a_nodes_name_adds_no_annotation() -> None:
    (annotations,) = columns(outcome(node="n,failed,robots:200"))[11:]
    assert annotations.split(",")[0] == "succeeded"
    assert len(annotations.split(",")) == 2


@pytest.mark.parametrize(
    ("start_ms", "shown"), [(1, "19700101000000001+5"), (LAST_MS, "99991231235959999+5"), (0, "-")]
)
def test_the_start_of_a_fetch_is_shown_as_the_node_said(start_ms: int, shown: str) -> None:
    """Moments that are no date do not come as far as this."""
    assert columns(outcome(start_ms=start_ms, duration_ms=5))[8] == shown


@given(
    st.builds(
        OutcomeRow,
        time_ms=st.integers(0, 4_000_000_000_000),
        uri=st.just("http://a.example/x"),
        fetch_status=st.integers(-9998, 599),
        disposition=st.sampled_from(["SUCCEEDED", "FAILED", "DISREGARDED"]),
        body_bytes=st.integers(0, 2**63 - 1),
        path=st.text("LEXRIMPS", max_size=60),
        via=st.text(max_size=30),
        media_type=st.text(max_size=30),
        node=st.text(max_size=30),
        toe_number=st.integers(-(2**31), 2**31 - 1),
        start_ms=st.integers(0, LAST_MS),
        duration_ms=st.integers(0, 86_400_000),
        digest=st.text(max_size=30),
        annotations=st.just(("1t",)),
    )
)
@example(outcome(via="\x1c", media_type="\x85", digest="\u2029", node="\u3000"))
def test_every_line_is_one_line_of_twelve_columns(row: OutcomeRow) -> None:
    found = columns(row)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found[0])
    assert int(found[1]) == row.fetch_status and int(found[2]) == row.body_bytes
    assert found[3] == row.uri


CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0xAD, 0x202E, 0x2028, 0x2066, 0xFEFF)]
"""Those of ASCII and Latin-1, and some that turn text round, end a line, or are not seen."""


@pytest.mark.parametrize("field", ["uri", "path", "via", "media_type", "node", "digest", "source"])
def test_a_crawl_log_line_drops_control_characters_from_every_field_of_callers(field: str) -> None:
    text = line(outcome(**{field: "a" + "".join(CONTROLS) + "b"})).decode()
    assert text.removesuffix("\n").isprintable() and "ab" in text


def test_an_annotation_loses_control_characters_blanks_and_commas() -> None:
    row = outcome(annotations=("a\x1b[2Jb", "c d", "x,node:other"), node="n,1")
    assert columns(row)[-1] == "succeeded,a[2Jb,cd,x_node:other,node:n_1"
