"""The references of playlists: M3U, and its extension for streams in parts, HLS (RFC 8216).

Takes time in proportion to the length.
"""

import re
from collections.abc import Iterator

PLAYLIST_TYPES = frozenset(
    {
        *("application/vnd.apple.mpegurl", "application/mpegurl", "application/x-mpegurl"),
        *("audio/mpegurl", "audio/x-mpegurl", "video/mpegurl", "video/x-mpegurl"),
    }
)

# Keys, beginnings of parts, other voices and pictures: #EXT-X-MAP:URI="init.mp4"
_ATTRIBUTE = re.compile(r'(?<=[:,])[A-Z-]{0,20}URI="([^"]*+)"')


def playlist_references(playlist: str) -> Iterator[str]:
    """The references of a playlist, in their order, with repetitions: parts, keys and other playlists. Leaves
    out those with a variable (`{$name}`)."""
    for line in playlist.splitlines():
        if line.startswith("#EXT"):
            references = _ATTRIBUTE.findall(line)
        elif line.startswith("#"):
            continue
        else:
            references = [line.strip()]
        for reference in references:
            if reference and "{$" not in reference:
                yield reference
