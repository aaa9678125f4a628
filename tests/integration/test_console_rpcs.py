"""The contract as JSON over HTTP equals the contract over gRPC: requests, answers, refusals, streams."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from client_doubles.fake_frontier import FRONTIER, NODE, FakeFrontier, Refusal, serving
from frontier_harness.calls import TIMEOUT_S, fresh_name, seed_of
from frontier_harness.console import ConsoleProcess, told
from frontier_harness.every_rpc import CHANGING, OF_A_CRAWL, OF_NO_CRAWL, READING, RPCS, request
from frontier_harness.filled import filled
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from grpc_status import rpc_status

from toehold.frontier.v1.admin_pb2 import AddSeedBatchResponse, GetCallerResponse, GetFrontierResponse, Node
from toehold_console import openapi
from toehold_console.contract import HTTP_STATUS, MAX_VALUES, METHODS
from toehold_console.rpcs import LARGE_BYTES

UNARY = sorted(
    path for path, method in METHODS.items() if not (method.client_streaming or method.server_streaming)
)
STREAMS = sorted(path for path, method in METHODS.items() if method.server_streaming)
AWAY_S = 3.0
"""gRPC rests for longer and longer between its attempts to connect: after this, for about a second."""


class Served:
    """A frontier with answers of the tests, a node likewise, and a console before them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.frontier, self.node = FakeFrontier(), FakeFrontier()
        address = stack.enter_context(serving(self.frontier, "127.0.0.1:0", FRONTIER))
        self.node_address = stack.enter_context(serving(self.node, "127.0.0.1:0", NODE))
        self.http = stack.enter_context(ConsoleProcess(address, folder)).http

    def asked_for(self, path: str) -> FakeFrontier:
        """The server of an RPC. A node's is found by the frontier."""
        if not path.startswith("NodeService/"):
            return self.frontier
        known = GetFrontierResponse(nodes=[Node(node="north", service_address=self.node_address)])
        self.frontier.will("GetFrontier", known)
        return self.node

    def post(self, path: str, body: str) -> Any:
        if len(body) >= LARGE_BYTES:
            self.frontier.will("GetCaller", GetCallerResponse())  # it knows no callers
        query = "?node=north" if path.startswith("NodeService/") else ""
        return self.http.post(
            f"/v1/{path}{query}", content=body, headers={"content-type": "application/json"}
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(tmp_path_factory.mktemp("console"), stack)


@pytest.mark.parametrize("path", UNARY)
def test_each_rpc_carries_every_field_there_and_back(served: Served, path: str) -> None:
    method = METHODS[path]
    asked, answer = (filled(GetMessageClass(kind)) for kind in (method.input_type, method.output_type))
    server = served.asked_for(path)
    server.will(method.name, answer)
    response = served.post(path, json_format.MessageToJson(asked))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert server.asked[method.name].pop() == asked
    assert json_format.Parse(response.text, GetMessageClass(method.output_type)()) == answer


@pytest.mark.parametrize(
    "path", ["FrontierService/Next", "FrontierAdminService/GetFrontier", "NodeService/GetPool"]
)
def test_rpc_names_all_fields_of_an_empty_answer(served: Served, path: str) -> None:
    """So that a script finds `0`, `[]` and `""` as they are in the contract."""
    method = METHODS[path]
    served.asked_for(path).will(method.name, GetMessageClass(method.output_type)())
    response = served.post(path, "{}")
    plain = {field.json_name for field in method.output_type.fields if not field.has_presence}
    assert plain == set(response.json())


@pytest.mark.parametrize("code", sorted(HTTP_STATUS, key=str))
def test_each_code_has_its_http_status_and_all_details(served: Served, code: grpc.StatusCode) -> None:
    served.frontier.will(
        "GetCrawl", Refusal(code, "it is refused", "SOME_REASON", {"crawl": "x"}, retry_s=1.5)
    )
    response = served.post("FrontierAdminService/GetCrawl", "{}")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (HTTP_STATUS[code], HTTP_STATUS[code])
    assert (error["status"], error["message"]) == (code.name, "it is refused")
    info, retry = error["details"]
    assert info == {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SOME_REASON",
        "domain": "toehold",
        "metadata": {"crawl": "x"},
    }
    assert retry["retryDelay"] == "1.500s"
    assert response.headers["retry-after"] == "2"


@pytest.mark.parametrize("path", STREAMS)
def test_each_stream_comes_as_events_that_go_on_behind_the_last_one(served: Served, path: str) -> None:
    method = METHODS[path]
    answers = [filled(GetMessageClass(method.output_type)) for _ in range(2)]
    for number, answer in enumerate(answers):
        if "present" in method.output_type.fields_by_name:
            answer.ClearField("present")
        answer.cursor = f"cursor-{number}"  # type: ignore[attr-defined]  # all of them have one
    served.frontier.will(method.name, answers)
    asked = {"request": json.dumps({"crawl": "docs", "cursor": "start"})}
    with told(served.http, f"/v1/{path}", params=asked, headers={"last-event-id": "there"}) as events:
        got = list(events)
    assert [each.kind for each in got] == ["message", "message", "end"]
    assert [each.identity for each in got[:2]] == ["cursor-0", "cursor-1"]
    for each, answer in zip(got, answers, strict=False):
        assert json_format.ParseDict(each.content, GetMessageClass(method.output_type)()) == answer
    (request_,) = served.frontier.asked.pop(method.name)
    assert (request_.crawl, request_.cursor) == ("docs", "there")


def test_a_stream_that_is_refused_has_the_status_of_the_refusal(served: Served) -> None:
    served.frontier.will("StateEvents", [Refusal(grpc.StatusCode.NOT_FOUND, "no crawl", "UNKNOWN_CRAWL")])
    response = served.post("FrontierService/StateEvents", "{}")
    assert response.status_code == 404
    assert response.json()["error"]["details"][0]["reason"] == "UNKNOWN_CRAWL"


def test_a_stream_that_is_refused_later_ends_with_the_refusal(served: Served) -> None:
    first = filled(GetMessageClass(METHODS["FrontierService/StateEvents"].output_type))
    served.frontier.will(
        "StateEvents", [first, Refusal(grpc.StatusCode.OUT_OF_RANGE, "too old", "CURSOR_TOO_OLD")]
    )
    with told(served.http, "/v1/FrontierService/StateEvents") as events:
        got = list(events)
    assert [each.kind for each in got] == ["message", "error"]
    assert got[1].content["error"]["status"] == "OUT_OF_RANGE"


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("NoService/GetCrawl", "{}", 404, "there is no RPC NoService/GetCrawl"),
        ("FrontierAdminService/Nothing", "{}", 404, "the services are FrontierAdminService, FrontierService"),
        ("FrontierAdminService/AddSeeds", "{}", 501, "use gRPC, or AddSeedBatch"),
        ("FrontierAdminService/ImportUris", "{}", 501, "takes a stream of messages"),
        ("FrontierAdminService/GetCrawl", "{", 400, "must be a GetCrawlRequest as proto3 JSON"),
        ("FrontierAdminService/GetCrawl", '{"crawl": 3}', 400, "must be a GetCrawlRequest as proto3 JSON"),
        ("FrontierAdminService/GetCrawl", '{"craw": "x"}', 400, "craw"),
        ("FrontierAdminService/GetCrawl", "[" * 100_000, 400, "must be"),
        ("FrontierAdminService/GetCrawl", '{"crawl": "\\ud800"}', 400, "must be a GetCrawlRequest"),
        ("FrontierAdminService/GetCrawl", '{"\\ud800": 1}', 400, "must be a GetCrawlRequest"),
        ("FrontierAdminService/GetCrawl", "null", 400, "it must be a JSON object"),
        ("FrontierAdminService/GetCrawl", "[]", 400, "it must be a JSON object"),
        ("FrontierService/RequestState", '{"targetState": "NOPE"}', 400, "NOPE"),
    ],
)
def test_a_request_that_is_none_is_refused_with_a_sentence(
    served: Served, path: str, body: str, status: int, says: str
) -> None:
    response = served.post(path, body)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert says in error["message"]
    assert error["details"][0]["reason"]


@pytest.mark.parametrize("value", ['""', '"\\","', "1", "{}", "[]", '{"a":"b"}'])
def test_a_body_with_too_many_values_is_refused_before_it_is_parsed(served: Served, value: str) -> None:
    body = f'{{"crawl": "x", "uris": [{",".join([value] * (MAX_VALUES + 1))}]}}'.ljust(LARGE_BYTES)
    response = served.post("FrontierAdminService/AddSeedBatch", body)
    assert response.status_code == 400
    assert f"it must have at most {MAX_VALUES} values" in response.json()["error"]["message"]


@pytest.mark.parametrize("start", ['"', '{"crawl": "', '{"crawl": "x", "uris": ["\\"'])
def test_an_unterminated_string_of_commas_is_refused(served: Served, start: str) -> None:
    response = served.post("FrontierAdminService/AddSeedBatch", start + "," * 3 * MAX_VALUES)
    assert response.status_code == 400
    assert "must have at most" not in response.json()["error"]["message"]


def test_commas_within_strings_do_not_count_as_values(served: Served) -> None:
    served.frontier.will("AddSeedBatch", AddSeedBatchResponse())
    body = json.dumps({"crawl": "x", "uris": ["http://a.example/?" + '",\\' * 100_000]})
    assert served.post("FrontierAdminService/AddSeedBatch", body).status_code == 200


def test_a_message_that_is_too_large_is_refused_as_the_frontier_refuses_it(served: Served) -> None:
    body = json.dumps({"crawl": "x", "uris": ["http://a.example/" + "a" * 8000] * 1_100})
    response = served.post("FrontierAdminService/AddSeedBatch", body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["details"][0]["reason"] == "BATCH_TOO_LARGE"
    assert error["message"].startswith("a message must have at most 8388608 bytes, got 88")


def test_a_path_that_leads_nowhere_is_told_as_other_errors_are(served: Served) -> None:
    for method, path, status, reason in (
        ("GET", "/nothing", 404, "UNKNOWN_PATH"),
        ("GET", "/static/none.js", 404, "UNKNOWN_PATH"),
        ("PUT", "/healthz", 405, "WRONG_METHOD"),
        ("DELETE", "/v1/FrontierAdminService/GetCrawl", 405, "WRONG_METHOD"),
    ):
        response = served.http.request(method, path)
        assert response.status_code == status, path
        assert response.json()["error"]["details"][0]["reason"] == reason


def test_other_requests_are_refused_with_a_sentence(served: Served) -> None:
    path = "/v1/FrontierAdminService/GetCrawl"
    assert served.http.get(path).status_code == 405
    form = served.http.post(path, content="crawl=x", headers={"content-type": "text/plain"})
    assert form.status_code == 415
    assert "must be application/json, got 'text/plain'" in form.json()["error"]["message"]
    served.frontier.will("GetCaller", GetCallerResponse())
    large = served.http.post(path, content=b" " * 17_000_000, headers={"content-type": "application/json"})
    assert large.status_code == 413
    assert "at most 16777216 bytes" in large.json()["error"]["message"]
    assert "add ?node=NAME" in served.http.post("/v1/NodeService/GetPool", json={}).json()["error"]["message"]
    served.frontier.will("GetFrontier", GetFrontierResponse())
    unknown = served.http.post("/v1/NodeService/GetPool?node=none", json={})
    assert (unknown.status_code, unknown.json()["error"]["details"][0]["reason"]) == (404, "UNKNOWN_NODE")


def test_a_frontier_that_is_away_is_told_as_the_client_tells_it(tmp_path: Path) -> None:
    with ConsoleProcess("127.0.0.1:9", tmp_path) as console:
        response = console.http.post("/v1/FrontierAdminService/GetFrontier", json={})
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "no frontier answers at 127.0.0.1:9 (Connection refused)"


def test_a_call_just_after_the_frontier_came_back_reaches_it(tmp_path: Path) -> None:
    """A page hears of that by another connection than its calls take."""
    frontier = FakeFrontier()
    frontier.will("GetFrontier", GetFrontierResponse())
    with KeptPort() as port, ConsoleProcess(port.address, tmp_path) as console:

        def status() -> int:
            return console.http.post("/v1/FrontierAdminService/GetFrontier", json={}).status_code

        long_ago_s = time.monotonic() + AWAY_S
        while time.monotonic() < long_ago_s:
            assert status() == 503
        with serving(frontier, port.address, FRONTIER):
            assert status() == 200


def test_the_request_id_of_a_script_reaches_the_frontier(served: Served) -> None:
    served.frontier.request_ids.clear()
    served.frontier.will("GetFrontier", GetFrontierResponse(), GetFrontierResponse())
    for name in ("ticket-17", "not one"):
        headers = {"toehold-request-id": name}
        served.http.post("/v1/FrontierAdminService/GetFrontier", json={}, headers=headers)
    first, second = served.frontier.request_ids["GetFrontier"]
    assert first == "ticket-17"
    assert second not in (None, "not one")


# The same questions to a real frontier.

FLEETING = (
    "Time",
    "fetchPolicyId",  # a policy has the crawl's launch time
    "scopeVersion",
    "seenVersion",
    "cursor",
    "Cursor",
    "session",
    "Session",
    "snapshot",
    "requestId",
    "checkpoint",
    "path",
    "elapsed",
    "limitedDuration",
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ConsoleProcess]]:
    folder = tmp_path_factory.mktemp("real")
    with ServerProcess(folder / "data") as server, ConsoleProcess(server.address, folder) as console:
        yield server, console


@pytest.mark.parametrize(
    "rpc", ["CreateCrawl", "LaunchCrawl", "Schedule", "GetStatistics", "ListQueues", "CancelJob"]
)
def test_a_real_frontier_answers_alike_both_ways(
    real: tuple[ServerProcess, ConsoleProcess], rpc: str
) -> None:
    """Twins are asked, one each way. A crawl is a twin: with its name blanked, all but times is equal."""
    server, console = real
    by_grpc, by_json = (_crawl(server, rpc) for _ in range(2))
    service = RPCS[rpc].containing_service.name
    stub = getattr(server.stubs.frontier if service == "FrontierService" else server.stubs.admin, rpc)
    try:
        status, plain = (
            200,
            json_format.MessageToDict(
                stub(_request(rpc, by_grpc), timeout=TIMEOUT_S), always_print_fields_with_no_presence=True
            ),
        )
    except grpc.RpcError as error:
        told_ = rpc_status.from_call(error)  # type: ignore[arg-type]  # has what is read of a Call
        assert told_ is not None
        status = HTTP_STATUS[error.code()]
        details = [json_format.MessageToDict(each) for each in told_.details]
        plain = {
            "error": {
                "code": status,
                "message": error.details(),
                "status": error.code().name,
                "details": details,
            }
        }
    response = console.http.post(
        f"/v1/{service}/{rpc}",
        content=json_format.MessageToJson(_request(rpc, by_json)),
        headers={"content-type": "application/json"},
    )
    assert response.status_code == status, response.text
    assert _lasting(response.json(), by_json) == _lasting(plain, by_grpc)


def _crawl(server: ServerProcess, rpc: str) -> str:
    """A crawl with a host of its own, in a state in which the RPC makes sense."""
    name = fresh_name()
    if rpc == "LaunchCrawl":
        server.stubs.create(name)
        server.stubs.ask("AddSeedBatch", name, uris=[seed_of(name)])
    elif rpc in OF_A_CRAWL:
        server.stubs.launch(name, seed_of(name))
    return name


def _request(rpc: str, crawl: str) -> Any:
    made = request(rpc, crawl)
    if rpc == "CreateCrawl":
        made.crawl = crawl
    return made


def _lasting(value: Any, crawl: str) -> Any:
    """An answer without its times, and with the crawl's name blanked."""
    if isinstance(value, dict):
        return {
            key: _lasting(each, crawl)
            for key, each in value.items()
            if not any(word in key for word in FLEETING) and key not in ("crawls", "leases", "job")
        }
    if isinstance(value, list):
        return [_lasting(each, crawl) for each in value]
    return value.replace(crawl, "CRAWL") if isinstance(value, str) else value


def test_every_rpc_is_asked() -> None:
    assert {path.partition("/")[2] for path in METHODS if not path.startswith("NodeService")} == set(RPCS)
    assert {*OF_A_CRAWL, *OF_NO_CRAWL} == set(RPCS) and set(CHANGING) and set(READING)


# The OpenAPI document.


def test_the_openapi_document_is_valid_and_has_every_rpc(served: Served) -> None:
    from openapi_spec_validator import validate  # slow to import

    response = served.http.get("/v1/openapi.json")
    document = response.json()
    validate(document)
    assert set(document["paths"]) == {f"/v1/{path}" for path in (*UNARY, *STREAMS)}


def test_messages_fit_their_schemas() -> None:
    from jsonschema import Draft202012Validator

    document = openapi.document()
    for path in UNARY:
        for kind in (METHODS[path].input_type, METHODS[path].output_type):
            name = f"Node.{kind.name}" if path.startswith("NodeService") else kind.name
            schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
            message = json_format.MessageToDict(filled(GetMessageClass(kind)))
            Draft202012Validator(schema).validate(message)
