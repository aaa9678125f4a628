"""`python -m toehold_client` is `toehold`."""

from .cli import main

main()
