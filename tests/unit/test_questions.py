"""Each RPC is a question, or changes something: a frontier that was opened read-only refuses the latter."""

from frontier_harness.every_rpc import RPCS

from toehold_base.access.roles import is_question

QUESTIONS = {
    rpc for rpc, method in RPCS.items() if is_question(f"{method.containing_service.full_name}/{rpc}")
}

CHANGES = {
    *("Schedule", "Next", "Finished", "Heartbeat", "RequestState", "CreateCrawl", "AddSeeds"),
    *("AddSeedBatch", "LaunchCrawl", "ReopenCrawl", "UpdateCrawl", "TearDownCrawl", "DeleteCrawl"),
    *("UpdateQueue", "NoteUris", "ForgetUris", "ImportUris", "StartJob", "CancelJob", "PutOverride"),
    *("DeleteOverride", "CreateCheckpoint", "DeleteCheckpoint", "SetPoolSize", "DrainNode", "ForgetNode"),
}
"""A new RPC belongs here, or callers who watch may use it."""


def test_each_rpc_is_a_question_or_a_change() -> None:
    assert RPCS.keys() - CHANGES == QUESTIONS


def test_no_change_has_a_stream_of_answers() -> None:
    """One refusal then fits them all."""
    assert not [rpc for rpc in CHANGES if RPCS[rpc].server_streaming]
