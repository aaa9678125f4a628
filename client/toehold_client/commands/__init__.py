"""The commands of `toehold`, in the order of a crawl's life."""

import click

from .crawl import crawl
from .crawls import crawls, delete
from .events import events
from .init import init
from .launch import launch
from .queues import queues
from .status import status
from .steer import pause, resume, stop

ALL: tuple[click.Command, ...] = (
    crawl,
    init,
    launch,
    status,
    pause,
    resume,
    stop,
    events,
    queues,
    crawls,
    delete,
)
