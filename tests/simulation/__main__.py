"""Simulated crawls from a seed: `python -m tests.simulation SEED`, or `--from N --count M` of them."""

import sys

from simulation.campaign import main

sys.exit(main(sys.argv[1:]))
