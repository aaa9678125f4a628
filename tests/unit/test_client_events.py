"""Events as a program gets them: the contract's messages, with a sentence each."""

import copy
import pickle
from typing import Any, get_args, get_type_hints

import pytest

from toehold.frontier.v1 import crawl_pb2
from toehold.frontier.v1.crawl_pb2 import (
    CrawlState,
    CrawlStatus,
    ExitStatus,
    LimitReached,
    NodeJoined,
    Problem,
)
from toehold_client import Event
from toehold_client.events import EventKind

RUNNING = CrawlStatus(state=CrawlState.CRAWL_STATE_RUNNING, exit_status=ExitStatus.EXIT_STATUS_RUNNING)


def event(**fields: Any) -> Event:
    return Event(crawl_pb2.Event(sequence=7, cursor="e7", **fields))


def test_an_event_has_the_fields_of_the_contract() -> None:
    fields = {field.name for field in crawl_pb2.Event.DESCRIPTOR.fields}
    assert get_type_hints(Event).keys() == {"message", *fields}
    (kinds,) = crawl_pb2.Event.DESCRIPTOR.oneofs
    assert list(get_args(EventKind)) == [field.name for field in kinds.fields]
    assert [getattr(event(), name) for name in fields] == [getattr(event().message, name) for name in fields]


def test_an_event_is_read_like_its_message() -> None:
    joined = event(node_joined=NodeJoined(node="north"))
    assert (joined.sequence, joined.cursor, joined.node_joined.node) == (7, "e7", "north")
    assert joined.HasField("node_joined") and not joined.HasField("problem")
    assert joined.kind == joined.WhichOneof("kind") == "node_joined"
    name = "nodes_joined"
    with pytest.raises(AttributeError, match=name):
        getattr(joined, name)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"status_changed": RUNNING}, "RUNNING"),
        ({"node_joined": NodeJoined(node="north")}, "node north joined"),
        (
            {"limit_reached": LimitReached(limit="max_documents", value=9, reached=9, leased_count=2)},
            "limit reached: max_documents = 9; the crawl has 9, and 2 URIs being fetched",
        ),
        (
            {"problem": Problem(kind="store", detail="no\nspace \x1b[31m")},
            r"problem: no\nspace \x1b[31m (store)",
        ),
        ({}, "an event that this version does not know"),
    ],
)
def test_an_event_is_printed_as_a_sentence_that_is_safe_for_a_terminal(
    fields: dict[str, Any], sentence: str
) -> None:
    assert str(event(**fields)) == sentence
    assert repr(event(**fields)) == f"<Event 7: {sentence}>"


def test_each_kind_of_event_has_a_sentence_of_its_own() -> None:
    sentences = {str(event(**{kind: {}})) for kind in get_args(EventKind)}
    assert len(sentences) == len(get_args(EventKind))
    assert str(event()) not in sentences


def test_events_are_compared_copied_and_stored_by_their_messages() -> None:
    one, same, other = event(held={}), event(held={}), event(released={})
    assert one == same and one != other and one != one.message
    assert {one, same, other} == {one, other}
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
