"""The commands of `toehold`, by what one wants to do."""

from collections.abc import Mapping, Sequence

import click

from .callers import callers
from .certs import certs
from .checkpoints import checkpoints
from .completion import completion
from .conformance import conformance
from .console import console
from .copy import copy
from .crawl import crawl
from .crawls import crawls, delete
from .events import events
from .explain import explain
from .health import health
from .init import init
from .jobs import jobs
from .launch import create, launch
from .nodes import nodes
from .outcomes import outcomes
from .overrides import overrides
from .queues import queues
from .refusals import refusals
from .reopen import reopen
from .report import report
from .run import run
from .seeds import seeds
from .seen import seen
from .settings import set_settings, update
from .shards import shards
from .stats import stats
from .status import status
from .steer import hold, pause, resume, stop, teardown
from .tokens import tokens
from .uris import uris
from .verify import verify
from .watch import watch

SECTIONS: Mapping[str, Sequence[click.Command]] = {
    "Crawl": (crawl, init, create, launch, run, copy),
    "Watch": (status, watch, console, stats, events, outcomes),
    "Ask": (explain, report, refusals, queues, uris, seen),
    "Steer": (pause, resume, hold, stop, reopen, set_settings, update, overrides, seeds, jobs),
    "Nodes": (nodes, conformance),
    "Access": (callers, tokens, certs),
    "Upkeep": (health, crawls, checkpoints, shards, verify, teardown, delete, completion),
}
