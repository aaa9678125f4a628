"""`toehold` tells what came of a crawl on a real frontier, and why nothing more does."""

import threading

import pytest
from frontier_harness.calls import FINISH, PAUSE, RUN, Stubs, report, seconds, seed_of
from frontier_harness.command_line import At, Toehold, facts, paused_crawl

from toehold.frontier.v1 import crawl_pb2


@pytest.fixture
def at(toehold_at: Toehold, stubs: Stubs) -> At:
    return paused_crawl(toehold_at, stubs)


@pytest.fixture
def crawled(at: At, stubs: Stubs) -> At:
    """The same crawl with its first host's seed fetched, and its second's failed."""
    stubs.request(at.crawl, RUN)
    leases = {lease.uri: lease for lease in stubs.pages(at.crawl, least=2)}
    stubs.finish(
        report(
            leases[seed_of(at.crawl, "a.")],
            body_bytes=2_000,
            media_type="text/html",
            digest="sha1:A",
            fetch_duration=seconds(1),
            annotations=["linksCut"],
        ),
        report(leases[seed_of(at.crawl, "b.")], -4),
    )
    stubs.request(at.crawl, PAUSE)
    stubs.until(at.crawl, crawl_pb2.CRAWL_STATE_PAUSED)
    return at


def test_reasons_are_told_for_a_crawl_a_queue_and_a_uri(crawled: At) -> None:
    for subject in ([], ["--queue", crawled.key()], ["--uri", f"{seed_of(crawled.crawl, 'a.')}x"]):
        lines = crawled.output("explain", *subject).splitlines()
        assert lines[0].split() == ["why", "message", "until"]
        assert any(line.startswith("PAUSED") for line in lines[1:])
    whys = [reason["why"] for reason in crawled.json("explain", "--uri", seed_of(crawled.crawl, "b."))]
    assert "SEEN_ALREADY" in whys
    assert crawled.refused("explain", "--queue", "none")[0] == 9
    assert crawled.refused("explain", "--uri", "nope")[0] == 2


@pytest.mark.undivided("a cursor of outcomes has a place in each shard, and no number to read")
def test_outcomes_are_told_and_taken_up_at_a_cursor(crawled: At) -> None:
    lines = crawled.output("outcomes").splitlines()
    assert len(lines) == 4
    (fetched,) = [line for line in lines if "  SUCCEEDED    200  2.0 kB  " in line]
    assert f"  {seed_of(crawled.crawl, 'a.')}  -  -  text/html  linksCut" in fetched
    told = crawled.json("outcomes")
    assert [outcome["cursor"].partition("-")[0] for outcome in told] == ["o1", "o2", "o3", "o4"]
    for cursor in ("o2", told[1]["cursor"]):
        assert crawled.json("outcomes", "--from", cursor) == told[2:]
    assert crawled.json("outcomes", "--from", "now") == []
    code, errors = crawled.refused("outcomes", "--from", "e1")
    assert code == 2 and "'e1' is not a cursor" in errors


def test_outcomes_are_followed_to_the_end_of_the_crawl(crawled: At, stubs: Stubs) -> None:
    stopping = threading.Timer(0.2, lambda: stubs.request(crawled.crawl, FINISH))
    stopping.start()
    assert len(crawled.json("outcomes", "--follow")) == 4
    stopping.join()


def test_a_crawl_is_verified(crawled: At) -> None:
    shown = facts(crawled.output("verify", "--wait", "60"))
    assert shown["result"] == "no difference found"
    assert (shown["state"], shown["changed"]) == ("DONE", "0")
    (told,) = crawled.json("verify", "--repair", "--wait", "60")
    assert (told["parameters"], told["findings"]) == ({"repair": "true"}, [])


def test_reports_for_people_and_for_programs(crawled: At) -> None:
    """Heritrix 2.15."""
    first, second = (seed_of(crawled.crawl, f"{host}.") for host in "ab")
    shown = facts(crawled.output("report", "crawl"))
    assert (shown["URIs processed"], shown["succeeded"], shown["failed"]) == ("2", "1", "1")
    assert (shown["still queued"], shown["data"], shown["seeds announced"]) == ("3", "2.0 kB", "2 of 2")
    (told,) = crawled.json("report", "crawl")
    assert (told["processed_count"], told["bytes_count"], told["status"]["state"]) == (2, 2000, "PAUSED")

    heading, *seeds, summary = crawled.output("report", "seeds").splitlines()
    assert heading.split() == ["seed", "outcome"] and summary == "2 seeds: 1 fetched, 1 failed"
    assert [row.split(None, 1) for row in seeds] == [[first, "fetched (200)"], [second, "timed out"]]
    assert [seed["story"]["fetch_status"] for seed in crawled.json("report", "seeds")] == [200, -4]

    hosts = {row.split()[0]: row.split()[1:4] for row in crawled.output("report", "hosts").splitlines()[1:]}
    assert hosts == {
        f"a.{crawled.crawl}.example": ["1", "0", "0"],
        f"b.{crawled.crawl}.example": ["0", "1", "0"],
    }
    sources = {source["name"]: source["failed_count"] for source in crawled.json("report", "sources")}
    assert sources == {first: 0, second: 1}

    assert crawled.output("report", "mimetypes").splitlines()[1].split() == ["1", "text/html"]
    assert crawled.json("report", "mimetypes") == [{"media_type": "text/html", "succeeded_count": 1}]
    rows = [line.split(None, 1) for line in crawled.output("report", "responses").splitlines()[1:]]
    assert rows == [["1", "-4 timeout"], ["1", "200"]]
    assert crawled.json("report", "responses") == [
        {"fetch_status": -4, "finished_count": 1},
        {"fetch_status": 200, "finished_count": 1},
    ]

    output = crawled.output("report", "queues")
    assert facts(output)["retired"] == "0"
    assert any(line.startswith(f"{crawled.key()}  3 ") for line in output.splitlines())
    counts, *largest = crawled.json("report", "queues")
    assert sum(counts["queue_state_counts"].values()) == 2
    assert largest[0]["queue_key"] == crawled.key()

    (row,) = crawled.output("report", "nonempty").splitlines()[1:]
    assert row.split()[:4] == [crawled.key(), "3", "4", "3"]
    assert [queue["queue_key"] for queue in crawled.json("report", "nonempty")] == [crawled.key()]


def test_all_statistics_are_shown(crawled: At) -> None:
    """Heritrix 2.16."""
    shown = facts(crawled.output("stats"))
    assert (shown["finished"], shown["succeeded"], shown["failed"]) == ("2", "1, 2.0 kB", "1")
    assert (shown["novel"], shown["queued"], shown["media types"]) == (
        "1, 2.0 kB",
        "3",
        "text/html: 1",
    )
    assert shown["fetch status"] == "-4 timeout: 1, 200: 1"
    assert shown["average"].endswith("B/s") and " URIs/s, " in shown["average"]
    (told,) = crawled.json("stats")
    assert told["statistics"]["novel_bytes_count"] == 2000
    assert set(told["statistics"]) >= {
        "average_depth",
        "congestion_ratio",
        "deepest_queue_count",
        "future_count",
    }
