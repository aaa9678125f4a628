"""CrawlController: a crawl's life as a program steers it, whatever gets lost on the way."""

import threading
from contextlib import ExitStack

import grpc
import pytest
from client_doubles.blocking import Connect, controller_of, of_both_clients
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, Answer, FakeFrontier, Refusal, serving
from client_doubles.told import (
    FINISHED,
    NASCENT,
    PAUSED,
    PAUSING,
    PREPARING,
    RUNNING,
    SPEC,
    STOPPING,
    became,
    found,
    present,
    seeded,
)
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_client import CrawlController
from toehold_client.errors import (
    ClientClosed,
    CrawlExists,
    CrawlFinished,
    FrontierUnavailable,
    IllegalState,
    InvalidArgument,
    ToeholdError,
    WaitTimedOut,
)

EXISTS = Refusal(grpc.StatusCode.ALREADY_EXISTS, "crawl 'c' already exists", "CRAWL_EXISTS")
ILLEGAL = Refusal(
    grpc.StatusCode.FAILED_PRECONDITION, "crawl 'c' is not NASCENT", "ILLEGAL_STATE", {"state": "RUNNING"}
)


@of_both_clients
def test_creating_stores_the_crawl_and_its_seeds(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("CreateCrawl", admin_pb2.CreateCrawlResponse())
    frontier.will("GetCrawl", found(NASCENT))
    frontier.will("AddSeeds", admin_pb2.AddSeedsResponse(added_count=1))
    assert controller.create(SPEC, ["http://www.example.com/"]).added_count == 1
    assert frontier.asked["CreateCrawl"][0].spec == SPEC
    assert list(frontier.asked["AddSeeds"][0][0].uris) == ["http://www.example.com/"]


def test_seeds_may_come_from_a_generator_and_one_string_is_refused(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    with pytest.raises(InvalidArgument, match=r"seeds must be an iterable of URIs, got one string"):
        controller.create(SPEC, "https://a.example/")
    assert not frontier.asked["CreateCrawl"]
    frontier.will("CreateCrawl", admin_pb2.CreateCrawlResponse())
    frontier.will("GetCrawl", found(NASCENT))
    frontier.will("AddSeeds", admin_pb2.AddSeedsResponse(added_count=2))
    controller.create(SPEC, (f"https://{host}.example/" for host in "ab"))
    assert list(frontier.asked["AddSeeds"][0][0].uris) == ["https://a.example/", "https://b.example/"]


def test_creating_without_seeds_leaves_them_for_later(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("CreateCrawl", admin_pb2.CreateCrawlResponse())
    frontier.will("GetCrawl", found(NASCENT))
    assert controller.create(SPEC) == admin_pb2.AddSeedsResponse()
    assert not frontier.asked["AddSeeds"]


def test_creating_again_before_launch_goes_on_with_what_is_there(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    """As after an answer that was lost; the frontier tells the spec with its defaults."""
    frontier.will("CreateCrawl", EXISTS)
    frontier.will("GetCrawl", found(NASCENT), found(NASCENT))
    frontier.will("AddSeeds", admin_pb2.AddSeedsResponse(added_count=2))
    assert controller.create(SPEC, ["http://www.example.com/"]).added_count == 2


@pytest.mark.parametrize(
    "existing",
    [found(RUNNING), found(FINISHED), found(NASCENT, crawl_pb2.CrawlSpec(contact="somebody@else.example"))],
)
def test_another_crawl_of_the_same_name_is_not_touched(
    frontier: FakeFrontier, controller: CrawlController, existing: admin_pb2.GetCrawlResponse
) -> None:
    frontier.will("CreateCrawl", EXISTS)
    frontier.will("GetCrawl", existing)
    with pytest.raises(CrawlExists):
        controller.create(SPEC, ["http://www.example.com/"])
    assert not frontier.asked["AddSeeds"]


def test_launching_returns_at_once(frontier: FakeFrontier, controller: CrawlController) -> None:
    """S0.10: NASCENT → PREPARING; what follows is told by events."""
    frontier.will("GetCrawl", found(NASCENT))
    frontier.will("LaunchCrawl", admin_pb2.LaunchCrawlResponse(status=crawl_pb2.CrawlStatus(state=PREPARING)))
    assert controller.launch().state == PREPARING


def test_a_launch_whose_answer_was_lost_is_a_success(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("GetCrawl", found(NASCENT), found(RUNNING))
    frontier.will("LaunchCrawl", UNAVAILABLE, ILLEGAL)
    assert controller.launch().state == RUNNING


def test_launching_what_has_been_launched_is_refused(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("GetCrawl", found(RUNNING))
    frontier.will("LaunchCrawl", ILLEGAL)
    with pytest.raises(IllegalState) as caught:
        controller.launch()
    assert caught.value.state == RUNNING


def test_a_launch_that_is_refused_and_left_the_crawl_as_it_was_is_no_lost_answer(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    """From a checkpoint: a crawl that has taken in URIs is NASCENT before and after."""
    frontier.will("GetCrawl", found(NASCENT), found(NASCENT))
    frontier.will("LaunchCrawl", ILLEGAL)
    with pytest.raises(IllegalState):
        controller.launch("cp00001-20260101000000")


@pytest.mark.parametrize(
    ("method", "target", "state"),
    [
        ("pause", crawl_pb2.TargetState.TARGET_STATE_PAUSE, PAUSING),  # S0.16
        ("resume", crawl_pb2.TargetState.TARGET_STATE_RUN, PAUSED),  # S0.13
        ("hold", crawl_pb2.TargetState.TARGET_STATE_HOLD, PAUSING),  # S0.32
        ("stop", crawl_pb2.TargetState.TARGET_STATE_FINISH, STOPPING),  # S0.22
    ],
)
def test_requests_of_a_state_return_the_state_at_once(
    frontier: FakeFrontier,
    controller: CrawlController,
    method: str,
    target: crawl_pb2.TargetState.ValueType,
    state: crawl_pb2.CrawlState.ValueType,
) -> None:
    frontier.will(
        "RequestState", frontier_pb2.RequestStateResponse(status=crawl_pb2.CrawlStatus(state=state))
    )
    assert getattr(controller, method)().state == state
    assert [request.target_state for request in frontier.asked["RequestState"]] == [target]


def test_a_state_that_is_there_already_is_not_waited_for(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("StateEvents", [present(PAUSED), SILENCE])
    assert controller.wait_for({PAUSED}, PATIENCE_S).state == PAUSED


def test_a_state_is_waited_for_among_other_events(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will(
        "StateEvents", [present(PREPARING), seeded(1), became(2, RUNNING), became(3, PAUSING), SILENCE]
    )
    assert controller.wait_for({PAUSED, PAUSING}).state == PAUSING


def test_a_state_is_waited_for_by_its_name(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("StateEvents", [present(PAUSED), SILENCE], [present(FINISHED)])
    assert controller.wait_for("PAUSED", PATIENCE_S).state == PAUSED
    assert controller.wait_for({"PAUSED", "FINISHED"}, PATIENCE_S).state == FINISHED


def test_a_name_that_is_no_state_is_refused_by_the_type_checker_and_at_run_time(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    with pytest.raises(InvalidArgument, match=r"got 'PASUED'; did you mean PAUSED\?"):
        # If mypy accepted it, it would report that its `ignore` is unused.
        controller.wait_for("PASUED")  # type: ignore[arg-type]
    assert not frontier.asked["StateEvents"]


@of_both_clients
def test_waiting_outlives_a_restart_of_the_frontier(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will(
        "StateEvents",
        [present(PAUSING), UNAVAILABLE],
        UNAVAILABLE,
        [present(PAUSED, "e0"), became(1, PAUSED), SILENCE],
    )
    assert controller.wait_for({PAUSED}, PATIENCE_S).state == PAUSED


@of_both_clients
def test_waiting_outlives_a_frontier_that_dies(connect: Connect) -> None:
    dying, reborn = FakeFrontier(), FakeFrontier()
    dying.will("StateEvents", [present(PAUSING), SILENCE])
    reborn.will("StateEvents", [present(PAUSED), became(1, PAUSED)])
    reached: list[crawl_pb2.CrawlStatus] = []
    with ExitStack() as opened:
        kept = opened.enter_context(KeptPort())
        with serving(dying, kept.address) as address:
            controller = controller_of(connect(address), "c")
            waiting = threading.Thread(
                target=lambda: reached.append(controller.wait_for({PAUSED}, PATIENCE_S))
            )
            waiting.start()
            eventually(lambda: dying.asked["StateEvents"])
        opened.enter_context(serving(reborn, address))
        waiting.join(PATIENCE_S)
    assert [status.state for status in reached] == [PAUSED]


@of_both_clients
def test_waiting_ends_when_its_time_is_over(frontier: FakeFrontier, controller: CrawlController) -> None:
    """D19: Heritrix compares the time-out of such a wait the wrong way round."""
    silent: list[Answer] = [present(PAUSING), SILENCE]
    frontier.will("StateEvents", *[silent] * 20)
    with pytest.raises(WaitTimedOut, match=r"crawl 'c' has not become PAUSED within 0\.2 s; its state is "):
        controller.wait_for({PAUSED}, 0.2)


def test_nothing_is_waited_for_that_can_no_longer_come(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("StateEvents", [present(PAUSING), became(1, STOPPING), became(2, FINISHED)])
    with pytest.raises(CrawlFinished, match=r"crawl 'c' has ended \(FINISHED\), so it cannot become PAUSED"):
        controller.wait_for({PAUSED}, PATIENCE_S)


def test_what_can_no_longer_come_is_told_although_a_teardown_goes_on(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    """The events go on after FINISHED then, to the end of the teardown."""
    frontier.will("StateEvents", [present(STOPPING), became(1, FINISHED), SILENCE])
    with pytest.raises(CrawlFinished, match=r"crawl 'c' has ended \(FINISHED\), so it cannot become PAUSED"):
        controller.wait_for({PAUSED})


@of_both_clients
def test_waiting_ends_with_the_client(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("StateEvents", [present(PAUSING), SILENCE])
    client = connect(address)
    failures: list[Exception] = []

    def wait() -> None:
        try:
            controller_of(client, "c").wait_for({PAUSED})
        except ToeholdError as failure:
            failures.append(failure)

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: frontier.asked["StateEvents"])
    client.close()
    waiting.join(PATIENCE_S)
    assert [type(failure) for failure in failures] == [ClientClosed]


def test_the_end_can_be_waited_for(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("StateEvents", [present(STOPPING), became(1, FINISHED)])
    assert controller.wait_for({FINISHED}).state == FINISHED


@of_both_clients
def test_following_tells_events_and_nothing_else(frontier: FakeFrontier, controller: CrawlController) -> None:
    alive = frontier_pb2.StateEventsResponse(cursor="e1")
    frontier.will(
        "StateEvents",
        [present(RUNNING), seeded(1), alive, UNAVAILABLE],
        [present(RUNNING, "e1"), became(2, FINISHED)],
    )
    assert [event.sequence for event in controller.follow("start")] == [1, 2]


PAST: list[Answer] = [present(PREPARING, "e0"), seeded(1), became(2, RUNNING)]


@pytest.mark.parametrize(
    ("end", "line", "told"),
    [
        ("e2", [*PAST, SILENCE], [1, 2]),
        ("e2", [*PAST, became(3, PAUSING), SILENCE], [1, 2]),
        ("e0", [present(NASCENT, "e0"), SILENCE], []),
        ("another", [*PAST, frontier_pb2.StateEventsResponse(cursor="e2"), SILENCE], [1, 2]),
    ],
    ids=["all of them", "not those of later", "none", "until a sign of life"],
)
def test_the_events_so_far_are_told_without_waiting_for_more(
    frontier: FakeFrontier, controller: CrawlController, end: str, line: list[Answer], told: list[int]
) -> None:
    frontier.will("StateEvents", [present(RUNNING, end), SILENCE], line)
    assert [event.sequence for event in controller.events()] == told


@of_both_clients
def test_without_a_frontier_every_method_says_so(connect: Connect) -> None:
    with KeptPort() as nobodys:
        controller = controller_of(connect(nobodys.address), "c")
        for attempt in (
            controller.status,
            controller.launch,
            controller.pause,
            controller.statistics,
            controller.teardown,
            controller.delete,
            lambda: controller.wait_for({PAUSED}, PATIENCE_S),
            lambda: controller.listen(print),
        ):
            with pytest.raises(FrontierUnavailable, match=nobodys.address):
                attempt()


# jobs, outcomes, waiting URIs


def job(state: admin_pb2.JobState.ValueType, done: int = 0) -> admin_pb2.GetJobResponse:
    return admin_pb2.GetJobResponse(job=admin_pb2.Job(job=3, state=state, done_count=done, total_count=9))


@of_both_clients
@pytest.mark.parametrize("end", [admin_pb2.JobState.JOB_STATE_DONE, admin_pb2.JobState.JOB_STATE_CANCELLED])
def test_a_job_is_waited_for_until_it_has_ended(
    frontier: FakeFrontier, controller: CrawlController, end: admin_pb2.JobState.ValueType
) -> None:
    under_way = (
        admin_pb2.JobState.JOB_STATE_RECEIVING,
        admin_pb2.JobState.JOB_STATE_RUNNING,
        admin_pb2.JobState.JOB_STATE_CANCELLING,
    )
    frontier.will("GetJob", *map(job, under_way), job(end))
    assert controller.wait_for_job(3, 20).state == end
    assert [(asked.crawl, asked.job) for asked in frontier.asked["GetJob"]] == [("c", 3)] * 4


def test_a_job_that_has_ended_is_not_waited_for(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("GetJob", job(admin_pb2.JobState.JOB_STATE_DONE))
    assert controller.wait_for_job(3, 0).state == admin_pb2.JobState.JOB_STATE_DONE


def test_a_wait_for_a_job_that_takes_too_long_tells_how_far_it_is(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("GetJob", *[job(admin_pb2.JobState.JOB_STATE_RUNNING, 4)] * 100)
    with pytest.raises(
        WaitTimedOut, match=r"job 3 of crawl 'c' has not ended within 0.1 s; it has done 4 of 9 rows"
    ):
        controller.wait_for_job(3, 0.1)


@of_both_clients
@pytest.mark.parametrize("follow", [False, True])
def test_outcomes_come_one_by_one(frontier: FakeFrontier, controller: CrawlController, follow: bool) -> None:
    outcomes = [admin_pb2.UriOutcome(cursor=f"o{number}") for number in (1, 2, 3)]
    frontier.will(
        "StreamOutcomes",
        [
            admin_pb2.StreamOutcomesResponse(kept=admin_pb2.KeptOutcomes(outcome_count=3), cursor="o0"),
            admin_pb2.StreamOutcomesResponse(outcomes=outcomes[:2], cursor="o2"),
            admin_pb2.StreamOutcomesResponse(cursor="o2"),
            admin_pb2.StreamOutcomesResponse(outcomes=outcomes[2:], cursor="o3"),
        ],
    )
    assert list(controller.outcomes("o0", follow=follow)) == outcomes
    (asked,) = frontier.asked["StreamOutcomes"]
    assert (asked.crawl, asked.cursor, asked.follow) == ("c", "o0", follow)


def test_waiting_uris_come_one_by_one(frontier: FakeFrontier, controller: CrawlController) -> None:
    uris = [admin_pb2.WaitingUri(queue_key=key) for key in "abc"]
    frontier.will(
        "ExportUris",
        [
            admin_pb2.ExportUrisResponse(uris=uris[:2], cursor="1"),
            admin_pb2.ExportUrisResponse(uris=uris[2:], cursor="end"),
        ],
    )
    assert list(controller.waiting()) == uris
