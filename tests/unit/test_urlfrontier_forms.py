"""What URLFrontier's clients put, in Toehold's form and back: crawl ids, keys, URLs, dates."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontier_server.core.uri.canonical import Malformed, canonical
from toehold.frontier.v1.admin_pb2 import UriState, UriStory
from urlfrontier.urlfrontier_pb2 import StringList, URLInfo
from urlfrontier_gateway import crawl_ids, items, queue_keys
from urlfrontier_gateway.refusals import RefusedRequest
from urlfrontier_gateway.views import seen_filter

TEXTS = st.text(st.characters(codec="utf-8"))


@given(TEXTS)
@example("urlfrontier")
@example("-")
def test_the_name_of_a_crawl_is_legal_and_tells_its_id(text: str) -> None:
    crawl_id = crawl_ids.normalised(text)
    name = crawl_ids.crawl_name(crawl_id)
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name)
    assert name != crawl_ids.SETTINGS_CRAWL
    assert crawl_ids.crawl_id(name, crawl_id) == crawl_id


@pytest.mark.parametrize(
    ("name", "description"), [("docs", "docs"), ("urlfrontier", "x"), ("urlfrontier-x", "x")]
)
def test_a_crawl_of_somebody_else_has_no_id(name: str, description: str) -> None:
    assert crawl_ids.crawl_id(name, description) is None


def test_ids_that_differ_have_names_that_differ() -> None:
    ids = ("a", "A", "a ", "ä", "a-", "-a", "a" * 100, "a" * 101)
    assert len({crawl_ids.crawl_name(each) for each in ids}) == len(ids)


@given(TEXTS)
@example("%41")
@example("a b")
def test_a_key_comes_back_as_it_was(key: str) -> None:
    encoded = queue_keys.encoded(key)
    if encoded:
        assert queue_keys.decoded(encoded) == key
        assert len(encoded) <= 256
        assert re.fullmatch(r"[!-~]+", encoded)
    else:
        assert not key or len(key) > 21, "a character has at most four bytes, of three characters each"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://key1.com/", "key1.com"),
        ("http://gac.icann.org?language_id=9", "gac.icann.org"),
        ("https://host:8080/a", "host"),
        ("http://host&x", "host"),
        ("host/path", "host"),
        ("", ""),
        ("http:///path", ""),
    ],
)
def test_the_default_key_is_the_host_as_urlfrontier_cuts_it_out(url: str, key: str) -> None:
    assert queue_keys.default_key(url) == key


PARTS = st.text(st.sampled_from("abzAZ09_-.~/?&=+;:@!$()*,%#' é"), max_size=12)


@given(st.sampled_from(["http", "https", "HTTP"]), PARTS, PARTS)
@example("http", "a.1", "")
@example("http", "a.example", "a/../b")
@example("http", "a.example", ".")
@example("http", "a.example", "a?")
@example("https", "xn--a", "")
def test_a_url_that_is_not_stored_is_its_own_canonical_form(scheme: str, host: str, path: str) -> None:
    url = f"{scheme}://{host}/{path}"
    offer = items.discovered(URLInfo(url=url, key="k"))
    assert offer is not None
    if not offer.candidate.annotations:
        try:
            assert canonical(url).uri == url
        except Malformed:  # as some xn-- names are; the frontier refuses them
            assert "xn--" in url


@pytest.mark.parametrize("url", ["http://a.example/b", "HTTP://A.example/b#c", "http://a.example/%41?q=%20"])
def test_a_url_and_its_metadata_come_back(url: str) -> None:
    metadata = {"one": StringList(values=["1", "2"]), "none": StringList()}
    info = URLInfo(url=url, key="a key", crawlID="c", metadata=metadata)
    expected = URLInfo.FromString(info.SerializeToString())
    offer = items.discovered(info)
    assert offer is not None
    uri = canonical(offer.candidate.uri).uri
    assert items.url_info(uri, offer.queue_key, offer.candidate.annotations, offer.crawl_id) == expected


def test_a_known_url_is_due_at_its_date_or_done() -> None:
    later, done = items.known(URLInfo(url="http://a/"), 17), items.known(URLInfo(url="http://a/"), 0)
    assert later is not None and done is not None
    assert (later.candidate.not_before_time.seconds, later.is_known, later.is_done) == (17, True, False)
    assert (done.candidate.HasField("not_before_time"), done.is_known, done.is_done) == (False, True, True)
    endless = items.known(URLInfo(url="http://a/"), 2**64 - 1)
    assert endless is not None
    assert endless.candidate.not_before_time.ToDatetime().year == 9999


def test_a_done_url_has_no_date() -> None:
    story = UriStory(uri="http://a/", state=UriState.URI_STATE_DONE)
    story.discover_time.seconds = 5
    item = items.url_item(story, "c")
    assert (item.known.refetchable_from_date, item.creation_date) == (0, 5)
    story.state = UriState.URI_STATE_FUTURE
    story.due_time.seconds = 9
    assert items.url_item(story, "c").known.refetchable_from_date == 9


def test_a_filter_means_its_text() -> None:
    assert seen_filter("", "a.b(").uri_pattern == r"(?s).*a\.b\(.*"
    assert seen_filter("k", "A", True).uri_pattern == "(?is).*A.*"
    assert not seen_filter("k", "  ").uri_pattern
    with pytest.raises(RefusedRequest, match="filter must have at most"):
        seen_filter("", "." * 4096)
