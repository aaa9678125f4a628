"""The cases, by what they are about."""

from toehold_conformance.case import Case, Cases

from . import (
    addresses,
    bodies,
    connections,
    leases,
    links,
    outages,
    protocol,
    redirects,
    reports,
    robots,
    steering,
)

GROUPS: tuple[Cases, ...] = (
    robots.CASES,
    protocol.CASES,
    reports.CASES,
    links.CASES,
    redirects.CASES,
    bodies.CASES,
    connections.CASES,
    addresses.CASES,
    leases.CASES,
    steering.CASES,
    outages.CASES,
)

ALL: tuple[Case, ...] = tuple(case for group in GROUPS for case in group)
