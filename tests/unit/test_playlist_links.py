"""The references of playlists, and of web app manifests."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.json_links import manifest_references
from crawler_node.extraction.playlist_links import playlist_references


@pytest.mark.parametrize(
    ("lines", "references"),
    [
        ("#EXTM3U\n#EXTINF:9.0,a/b.ts\na.ts\n\n  b.ts?c=d  \r\n#EXT-X-ENDLIST\n", ["a.ts", "b.ts?c=d"]),
        ('#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS="a,b"\nlow/index.m3u8', ["low/index.m3u8"]),
        ('#EXT-X-KEY:METHOD=AES-128,URI="k.bin",IV=0x1', ["k.bin"]),
        ('#EXT-X-MAP:URI="init.mp4",BYTERANGE="1@0"', ["init.mp4"]),
        ('#EXT-X-MEDIA:TYPE=AUDIO,NAME="a,URI",URI="a/index.m3u8"', ["a/index.m3u8"]),
        ('#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="i.m3u8"', ["i.m3u8"]),
        (
            '#EXT-X-PART:DURATION=1,URI="p.1.mp4"\n#EXT-X-PRELOAD-HINT:TYPE=PART,URI="p.2.mp4"',
            ["p.1.mp4", "p.2.mp4"],
        ),
        ('#EXT-X-DATERANGE:ID="a",X-ASSET-URI="ad.m3u8"', ["ad.m3u8"]),
        ('# URI="no"\n#EXT-X-KEY:METHOD=NONE,URI=""\n#EXTINF:1,\n', []),
        ('#EXT-X-DEFINE:NAME="a",VALUE="b"\n{$a}/x.ts\n#EXT-X-MAP:URI="{$a}.mp4"', []),
        ("two words.mp3\nhttp://b.example/a.mp3", ["two words.mp3", "http://b.example/a.mp3"]),
    ],
)
def test_playlist_gives_its_parts_keys_and_playlists(lines: str, references: list[str]) -> None:
    assert list(playlist_references(lines)) == references


@pytest.mark.parametrize("again", ["#EXT", ":", ',URI="', ",A-A-A-A", "A", "a\n", "#EXT:\n", ',URI="a"'])
def test_repetition_takes_time_in_proportion(again: str) -> None:
    began = time.thread_time()
    list(playlist_references("#EXT:" + again * (1_000_000 // len(again))))
    assert time.thread_time() - began < 5


@given(st.text())
def test_no_playlist_is_an_error(text: str) -> None:
    for playlist in (text, "#EXT:" + text, '#EXT:URI="' + text):
        assert all("{$" not in reference for reference in playlist_references(playlist))


@pytest.mark.parametrize(
    ("manifest", "references"),
    [
        ({"icons": [{"src": "/i.png", "sizes": "9x9"}, {"src": "j.svg"}]}, [("/i.png", "E"), ("j.svg", "E")]),
        ({"screenshots": [{"src": "s.webp", "label": "/no"}]}, [("s.webp", "E")]),
        (
            {"shortcuts": [{"name": "/no", "url": "/new?a", "icons": [{"src": "k.png"}]}]},
            [("/new?a", "L"), ("k.png", "E")],
        ),
        ({"start_url": "/?source=pwa", "id": "/no", "scope": "/no/"}, [("/?source=pwa", "L")]),
        ({"icons": [{"src": "data:image/png;base64,AA=="}], "name": "a", "theme_color": "#fff/"}, []),
        ({"start_url": ".", "icons": [{"src": "icon"}]}, [(".", "L"), ("icon", "E")]),
        ({"protocol_handlers": [{"url": "/open?url=%s"}], "icons": [{"src": ""}]}, []),
        ({"icons": [{"src": "/two words.png"}]}, [("/two words.png", "E")]),
    ],
)
def test_manifest_gives_its_start_page_and_icons(manifest: object, references: list[tuple[str, str]]) -> None:
    found = manifest_references(json.dumps(manifest))
    assert [
        (reference, hop.value) for reference, hop in found if not reference.startswith("data:")
    ] == references
