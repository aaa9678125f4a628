"""The queues that a command names by a key, a host or a URL, and `toehold explain SUBJECT`."""

from typing import TypeAlias

import grpc
import pytest
from client_doubles.command_line import said
from client_doubles.fake_frontier import Answer, FakeFrontier, Refusal
from frontier_harness.command_line import Toehold

from toehold.frontier.v1 import admin_pb2

Keys: TypeAlias = dict[str, str]
"""URLs, and the keys of their queues."""

SURT_KEYS: Keys = {
    "http://example.com/": "com,example,",
    "https://example.com/": "com,example,#443",
    "http://example.com:8080/": "com,example,#8080",
    "https://example.com:8080/": "com,example,#8080/https",
    "http://127.0.0.1/": "127.0.0.1",
    "https://127.0.0.1/": "127.0.0.1#443",
    "http://[::1]:81/": "[::1]#81",
    "https://[::1]:81/": "[::1]#81/https",
    "http://www.example.com/a": "com,example,www,",
}
HAS = ("com,example,", "com,example,#443", "com,example,#8080", "com,example,www,", "127.0.0.1", "[::1]#81")


def knows(frontier: FakeFrontier, queues: tuple[str, ...] = HAS, keys: Keys = SURT_KEYS) -> None:
    """The frontier has a crawl with these queues, and makes these keys."""

    def get_queue(request: admin_pb2.GetQueueRequest) -> Answer:
        if request.queue_key in queues:
            return admin_pb2.GetQueueResponse(queues=[admin_pb2.WorkQueue(queue_key=request.queue_key)])
        return Refusal(grpc.StatusCode.NOT_FOUND, f"no queue {request.queue_key!r}", "UNKNOWN_QUEUE")

    def get_uri(request: admin_pb2.GetUriRequest) -> Answer:
        if request.uri not in keys:
            return Refusal(grpc.StatusCode.INVALID_ARGUMENT, "not a URI", "INVALID_ARGUMENT_VALUE")
        return admin_pb2.GetUriResponse(
            story=admin_pb2.UriStory(uri=request.uri, queue_key=keys[request.uri])
        )

    frontier.will("GetQueue", *[get_queue] * 20)
    frontier.will("GetUri", *[get_uri] * 20)
    listed = [admin_pb2.WorkQueue(queue_key=key, host=host_of(key)) for key in queues]
    frontier.will("ListQueues", *[admin_pb2.ListQueuesResponse(queues=listed)] * 5)
    frontier.will(
        "UpdateQueue",
        *[
            lambda asked: admin_pb2.UpdateQueueResponse(
                queues=[admin_pb2.WorkQueue(queue_key=asked.queue_key)]
            )
        ]
        * 9,
    )


def host_of(key: str) -> str:
    """`www.example.com` for `com,example,www,#443`."""
    return ".".join(reversed(key.partition("#")[0].rstrip(",").split(","))) if "," in key else key


def shown(toehold_at: Toehold, *arguments: str) -> list[str]:
    """The keys of the queues that a command prints."""
    code, output, errors = toehold_at("queues", *arguments, "--crawl", "c", "--json")
    assert (code, errors) == (0, "")
    return [queue["queue_key"] for queue in said(output)]


@pytest.mark.parametrize(
    ("subject", "keys"),
    [
        ("com,example,", ["com,example,"]),
        ("com,example,#8080", ["com,example,#8080"]),
        ("example.com", ["com,example,", "com,example,#443", "com,example,#8080"]),
        ("example.com:8080", ["com,example,#8080"]),
        ("127.0.0.1", ["127.0.0.1"]),
        ("[::1]:81", ["[::1]#81"]),
        ("http://www.example.com/a", ["com,example,www,"]),
        ("https://example.com/", ["com,example,#443"]),
    ],
)
def test_a_queue_is_named_by_key_host_or_url(
    frontier: FakeFrontier, toehold_at: Toehold, subject: str, keys: list[str]
) -> None:
    knows(frontier)
    assert shown(toehold_at, "show", subject) == keys


def test_a_host_means_all_its_parallel_queues_but_no_other_host(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    made = {"http://a.com/": "com,a,+0", "https://a.com/": "com,a,#443+0"}
    knows(frontier, ("com,a,+0", "com,a,+1", "com,a,#443+3", "com,a,b,+0", "com,ab,+0"), made)
    assert shown(toehold_at, "show", "a.com") == ["com,a,+0", "com,a,+1", "com,a,#443+3"]


def test_queues_of_other_assignments_are_found_by_the_keys_that_the_frontier_makes(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    made = {"http://www.a.com/": "bucket-7", "https://www.a.com/": "bucket-7"}
    knows(frontier, ("bucket-7", "bucket-77"), made)
    assert shown(toehold_at, "show", "www.a.com") == ["bucket-7"]


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("pause", admin_pb2.QueueChange(paused=True)),
        ("resume", admin_pb2.QueueChange(paused=False)),
        ("retire", admin_pb2.QueueChange(retired=True)),
        ("unretire", admin_pb2.QueueChange(retired=False)),
        ("wake", admin_pb2.QueueChange(wake=True)),
    ],
)
def test_a_change_reaches_every_queue_of_a_host(
    frontier: FakeFrontier, toehold_at: Toehold, command: str, change: admin_pb2.QueueChange
) -> None:
    knows(frontier)
    keys = ["com,example,", "com,example,#443", "com,example,#8080"]
    assert shown(toehold_at, command, "example.com") == keys
    wanted = [admin_pb2.UpdateQueueRequest(crawl="c", queue_key=key, change=change) for key in keys]
    assert frontier.asked["UpdateQueue"] == wanted


def test_a_deletion_names_every_queue_of_a_host(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    knows(frontier)
    frontier.will("StartJob", admin_pb2.StartJobResponse(job=admin_pb2.Job(job=1, kind="delete-uris")))
    assert toehold_at("queues", "delete", "example.com", "--crawl", "c")[0] == 0
    (request,) = frontier.asked["StartJob"]
    assert request.delete_uris.queue_pattern == r"com,example,|com,example,\#443|com,example,\#8080"


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("exmaple.com", "crawl 'c' has no queue for 'exmaple.com'; did you mean example.com?"),
        ("com,exmple,", "crawl 'c' has no queue for 'com,exmple,'; did you mean com,example,?"),
        ("zzzz", "crawl 'c' has no queue for 'zzzz'; `toehold queues` lists its queues"),
    ],
)
def test_an_unknown_queue_is_an_error_with_a_suggestion(
    frontier: FakeFrontier, toehold_at: Toehold, subject: str, message: str
) -> None:
    knows(frontier)
    assert toehold_at("queues", "show", subject, "--crawl", "c") == (9, "", f"Error: {message}\n")
    assert toehold_at("queues", "retire", subject, "--crawl", "c")[0] == 9
    assert toehold_at("explain", subject, "--crawl", "c")[0] == 9
    assert not frontier.asked["UpdateQueue"]


def test_a_crawl_without_queues_says_so(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    knows(frontier, (), {})
    errors = toehold_at("queues", "show", "a.com", "--crawl", "c")[2]
    assert errors == "Error: crawl 'c' has no queue for 'a.com'; it has no queues yet\n"


# explain


def explains(frontier: FakeFrontier, *messages: str) -> None:
    """The frontier will give these reasons, one for each subject."""
    for message in messages:
        reason = admin_pb2.Reason(why=admin_pb2.Why.WHY_PAUSED, message=message)
        frontier.will("Explain", admin_pb2.ExplainResponse(reasons=[reason]))


def test_explain_takes_a_url(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    knows(frontier)
    explains(frontier, "the host rests")
    code, output, _ = toehold_at("explain", "http://www.example.com/a", "--crawl", "c")
    assert (code, "the host rests" in output) == (0, True)
    assert frontier.asked["Explain"] == [admin_pb2.ExplainRequest(crawl="c", uri="http://www.example.com/a")]


def test_explain_takes_a_url_without_a_scheme(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    knows(frontier, keys={**SURT_KEYS, "https://www.example.com/a": "com,example,www,#443"})
    explains(frontier, "the host rests")
    assert toehold_at("explain", "www.example.com/a", "--crawl", "c")[0] == 0
    assert frontier.asked["Explain"] == [admin_pb2.ExplainRequest(crawl="c", uri="https://www.example.com/a")]


def test_explain_of_a_host_explains_each_of_its_queues(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    knows(frontier)
    explains(frontier, "first", "second", "third")
    output = toehold_at("explain", "example.com", "--crawl", "c")[1]
    headings = [line for line in output.splitlines() if line.startswith("Queue ")]
    assert headings == ["Queue com,example,:", "Queue com,example,#443:", "Queue com,example,#8080:"]
    assert output.index("first") < output.index(headings[1]) < output.index("second")


def test_explain_tells_programs_which_queue_a_reason_is_about(
    frontier: FakeFrontier, toehold_at: Toehold
) -> None:
    knows(frontier)
    explains(frontier, "first", "second", "third")
    told = said(toehold_at("explain", "example.com", "--crawl", "c", "--json")[1])
    assert [(each["queue_key"], each["message"]) for each in told] == [
        ("com,example,", "first"),
        ("com,example,#443", "second"),
        ("com,example,#8080", "third"),
    ]


def test_explain_shows_why_the_last_fetch_failed(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    reason = "127.0.0.1 is not public"
    story = admin_pb2.UriStory(uri="http://a.com/", fetch_status=-2, reason=reason)
    for message in ("seen already", f"failed: {reason}"):
        explains(frontier, message)
        frontier.will("GetUri", admin_pb2.GetUriResponse(story=story))
    output = toehold_at("explain", "http://a.com/", "--crawl", "c")[1]
    assert output.splitlines()[-1] == f"Its last fetch ended with -2 connect failed: {reason}"
    assert toehold_at("explain", "--uri", "http://a.com/", "--crawl", "c")[1].count(reason) == 1, "not twice"


@pytest.mark.parametrize(
    "arguments", [("a.com", "--queue", "k"), ("a.com", "--uri", "u"), ("--queue", "k", "--uri", "u")]
)
def test_explain_takes_one_subject(toehold_at: Toehold, arguments: tuple[str, ...]) -> None:
    code, _, errors = toehold_at("explain", *arguments, "--crawl", "c")
    assert (code, "Give only one of SUBJECT, --queue and --uri." in errors) == (2, True)


def test_explain_without_a_subject_explains_the_crawl(frontier: FakeFrontier, toehold_at: Toehold) -> None:
    explains(frontier, "it is paused")
    (told,) = said(toehold_at("explain", "--crawl", "c", "--json")[1])
    assert told["message"] == "it is paused" and "queue_key" not in told
    assert frontier.asked["Explain"] == [admin_pb2.ExplainRequest(crawl="c")]
