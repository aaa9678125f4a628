"""The commands of `toehold`, in the order of a crawl's life."""

import click

from .checkpoints import checkpoints
from .completion import completion
from .conformance import conformance
from .copy import copy
from .crawl import crawl
from .crawls import crawls, delete
from .events import events
from .explain import explain
from .init import init
from .jobs import jobs
from .launch import create, launch
from .nodes import nodes
from .outcomes import outcomes
from .overrides import overrides
from .queues import queues
from .report import report
from .run import run
from .seeds import seeds
from .seen import seen
from .settings import set_settings, update
from .stats import stats
from .status import status
from .steer import hold, pause, resume, stop, teardown
from .uris import uris
from .verify import verify
from .watch import watch

ALL: tuple[click.Command, ...] = (
    crawl,
    init,
    create,
    launch,
    run,
    status,
    watch,
    pause,
    resume,
    hold,
    stop,
    teardown,
    set_settings,
    update,
    events,
    stats,
    explain,
    report,
    outcomes,
    queues,
    uris,
    seeds,
    seen,
    jobs,
    overrides,
    verify,
    crawls,
    copy,
    delete,
    checkpoints,
    nodes,
    conformance,
    completion,
)
