"""What a coordinator knows of the parts of its crawls, when each part has become two.

The first of the two goes on as the former one: its events and jobs have their numbers. The second has
neither.
"""

import msgspec
from msgspec.structs import replace

from ..core.rows import keys
from ..core.rows.keys import CrawlRow
from ..core.rows.records import JobRow, StateRow, decode, encode
from ..core.rows.store import Family
from .jobs import JobPart

_encode = msgspec.msgpack.Encoder().encode
_parts_of = msgspec.msgpack.Decoder(list[JobPart])


def doubled_row(family: Family, key: bytes, value: bytes) -> bytes:
    """A row of a coordinator's store for twice as many parts. All jobs with parts must have ended."""
    if family is Family.JOBS:
        return encode(_doubled_job(decode(JobRow, value)))
    if family is Family.CRAWLS and key[4] == CrawlRow.STATE and key[:4] != keys.crawl_prefix(keys.SERVER):
        return encode(_doubled_state(decode(StateRow, value)))
    return value


def _doubled_state(row: StateRow) -> StateRow:
    return replace(row, heard={2 * part: number for part, number in row.heard.items()})


def _doubled_job(row: JobRow) -> JobRow:
    if not row.cursor:
        return row
    parts = [each for part in _parts_of.decode(row.cursor) for each in (part, JobPart(ended=part.ended))]
    return replace(row, cursor=_encode(parts))
