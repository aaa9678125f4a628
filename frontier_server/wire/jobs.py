"""Jobs: requests for them, and their descriptions."""

from collections.abc import Mapping

from google.protobuf.descriptor import FieldDescriptor

from toehold.frontier.v1 import admin_pb2

from ..core.journey.kept import filter_of
from ..core.state.job import JobKind
from ..core.state.model import JobView
from .by_name import message_of
from .uris import seen_filter, seen_filter_message

_BOOL = FieldDescriptor.CPPTYPE_BOOL


def job_asked(request: admin_pb2.StartJobRequest) -> tuple[JobKind, dict[str, str]] | None:
    """A job's kind and parameters; None if the request has no job."""
    match request.WhichOneof("job"):
        case "delete_uris":
            delete = request.delete_uris
            patterns = {"queue_pattern": delete.queue_pattern, "uri_pattern": delete.uri_pattern}
            return JobKind.DELETE_URIS, patterns | ({"dry_run": "true"} if delete.dry_run else {})
        case "retire_queues":
            return JobKind.RETIRE_QUEUES, {"queue_pattern": request.retire_queues.queue_pattern}
        case "unretire_queues":
            return JobKind.UNRETIRE_QUEUES, {"queue_pattern": request.unretire_queues.queue_pattern}
        case "wake_queues":
            return JobKind.WAKE_QUEUES, {"queue_pattern": request.wake_queues.queue_pattern}
        case "forget_uris":
            forget = request.forget_uris
            flags = {"waiting": forget.waiting, "dry_run": forget.dry_run}
            return JobKind.FORGET_URIS, seen_filter(forget.filter).parameters() | {
                name: "true" for name, value in flags.items() if value
            }
        case "verify":
            return JobKind.VERIFY, {"repair": "true"} if request.verify.repair else {}
        case _:
            return None


def job_start(crawl: str, kind: JobKind, parameters: Mapping[str, str]) -> admin_pb2.StartJobRequest:
    """The request for a job of a kind for operators, by its parameters: what `job_asked` understands."""
    request = admin_pb2.StartJobRequest(crawl=crawl)
    part = getattr(request, kind.value.replace("-", "_"))
    part.SetInParent()
    fields = part.DESCRIPTOR.fields_by_name
    for name, value in parameters.items():
        if name in fields:
            setattr(part, name, value == "true" if fields[name].cpp_type == _BOOL else value)
    if kind is JobKind.FORGET_URIS:
        part.filter.CopyFrom(seen_filter_message(filter_of(parameters)))
    return request


def job(view: JobView) -> admin_pb2.Job:
    return message_of(admin_pb2.Job, view, job=view.number)
