"""The targets, by group."""

from . import files, http, markup, robots, tokens, uris
from .target import Target

GROUPS: dict[str, tuple[Target, ...]] = {
    "uris": uris.TARGETS,
    "robots": robots.TARGETS,
    "markup": markup.TARGETS,
    "http": http.TARGETS,
    "files": files.TARGETS,
    "tokens": tokens.TARGETS,
}
TARGETS: dict[str, Target] = {target.name: target for group in GROUPS.values() for target in group}
