"""The commands of `toehold`, in the order of a crawl's life."""

import click

from .crawl import crawl
from .crawls import crawls, delete
from .events import events
from .explain import explain
from .init import init
from .jobs import jobs
from .launch import create, launch
from .outcomes import outcomes
from .overrides import overrides
from .queues import queues
from .report import report
from .seen import seen
from .stats import stats
from .status import status
from .steer import pause, resume, stop
from .uris import uris
from .verify import verify

ALL: tuple[click.Command, ...] = (
    crawl,
    init,
    create,
    launch,
    status,
    pause,
    resume,
    stop,
    events,
    stats,
    explain,
    report,
    outcomes,
    queues,
    uris,
    seen,
    jobs,
    overrides,
    verify,
    crawls,
    delete,
)
