"""The places that stores of tests have: those of a new store."""

from frontier_server.core.uri.assign import Places
from frontier_server.core.uri.suffixes import Suffixes
from frontier_server.program.suffix_list import installed

SUFFIXES = installed()
PLACES = Places(Suffixes(SUFFIXES))
