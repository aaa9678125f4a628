"""`toehold-frontier` and `python -m frontier_server` start here."""

from toehold_base.process.extras import packages_of
from toehold_base.process.startup import fast_imports


def main() -> None:
    """Imports the program, and runs it."""
    with packages_of("frontier", "toehold-frontier"), fast_imports():
        from .program.program import main as serve

    serve()


if __name__ == "__main__":
    main()
