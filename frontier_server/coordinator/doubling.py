"""What a coordinator knows of the parts of its crawls, when each part has become two.

The first of the two goes on as the former one: its events and jobs have their numbers, and links that wait
for it may be the second one's. The second has neither.
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


def doubled_row(family: Family, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """A row of a coordinator's store for twice as many parts. All jobs with parts must have ended."""
    if family is Family.JOBS:
        return key, encode(_doubled_job(decode(JobRow, value)))
    if family is Family.CRAWLS and key[4] == CrawlRow.STATE and key[:4] != keys.crawl_prefix(keys.SERVER):
        return key, encode(_doubled_state(decode(StateRow, value)))
    if family is Family.IMPORTS:
        return keys.parked_with_part(key, 2 * keys.parked_part(key)), value
    return key, value


def _doubled_state(row: StateRow) -> StateRow:
    heard = {2 * part: number for part, number in row.heard.items()}
    return replace(row, heard=heard, parked={2 * part: numbers for part, numbers in row.parked.items()})


def _doubled_job(row: JobRow) -> JobRow:
    if not row.cursor:
        return row
    parts = [each for part in _parts_of.decode(row.cursor) for each in (part, JobPart(ended=part.ended))]
    return replace(row, cursor=_encode(parts))
