"""WARC records as bytes, as two readers of others find them."""

import gzip
import hashlib
import subprocess
import sys
from io import BytesIO
from uuid import UUID

import pytest
from fastwarc.warc import ArchiveIterator
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from crawler_node.output import records
from crawler_node.output.records import FIELDS_TYPE, RecordWriter

RECORD_ID = "<urn:uuid:12345678-1234-4234-8234-123456789012>"


def written(fields: dict[str, str], block: bytes, body: bytes | None = None, level: int = 6) -> bytes:
    out = BytesIO()
    length = 0 if body is None else len(body)
    RecordWriter(out, level).write(
        "metadata",
        RECORD_ID,
        fields,
        FIELDS_TYPE,
        block,
        None if body is None else BytesIO(body + b"behind it"),
        length,
    )
    return out.getvalue()


def headers_and_block(data: bytes) -> tuple[dict[str, str], bytes]:
    """Those of the one record, as warcio reads it, and fastwarc, too."""
    ((is_sound, headers, block),) = (
        (each.verify_block_digest(), dict(each.headers.items()), each.reader.read())
        for each in ArchiveIterator(BytesIO(data), parse_http=False)
    )
    (by_warcio,) = (
        (dict(each.rec_headers.headers), each.content_stream().read())
        for each in WarcioIterator(BytesIO(data))
    )
    assert is_sound and by_warcio == (headers, block)
    return headers, block


@pytest.mark.parametrize("body_bytes", [0, 1, 99, 100, 101, 700_000])
def test_a_record_is_the_same_whether_its_body_is_compressed_at_once_or_in_pieces(
    monkeypatch: pytest.MonkeyPatch, body_bytes: int
) -> None:
    monkeypatch.setattr(records, "MOST_IN_MEMORY_BYTES", 100)
    body = hashlib.shake_128(b"body").digest(body_bytes)
    data = written({"WARC-Target-URI": "http://a.example/"}, b"head\r\n\r\n", body)
    headers, block = headers_and_block(data)
    assert block == b"head\r\n\r\n" + body
    assert headers["Content-Length"] == str(len(block))
    assert gzip.decompress(data).endswith(block + b"\r\n\r\n")


@given(
    value=st.text(st.characters(codec=None), max_size=40),
    block=st.binary(max_size=200),
    level=st.integers(1, 9),
)
def test_no_value_of_a_field_and_no_block_ends_a_record_early(value: str, block: bytes, level: int) -> None:
    data = written({"WARC-Filename": value, "WARC-Date": "2026-11-29T00:00:00.000Z"}, block, level=level)
    headers, found = headers_and_block(data)
    assert found == block
    assert list(headers) == [
        "WARC-Type",
        "WARC-Record-ID",
        "WARC-Filename",
        "WARC-Date",
        "WARC-Block-Digest",
        "Content-Type",
        "Content-Length",
    ]


FORKING = """
import os
from crawler_node.output.records import RecordIds

ids = RecordIds()
made = [ids.make() for _ in range(1000)]
child = os.fork()
if child:
    os.waitpid(child, 0)
    print(*made)
print(*[ids.make() for _ in range(1000)], flush=True)
"""


def test_ids_are_different_also_in_a_process_that_is_forked() -> None:
    run = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True)
    made = run.stdout.split()
    assert len(made) == len(set(made)) == 3000
    assert all(each == f"<{UUID(each[1:-1]).urn}>" and UUID(each[1:-1]).version == 4 for each in made)
