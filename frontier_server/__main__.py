"""`toehold-frontier` and `python -m frontier_server` start here."""

from toehold.extras import packages_of
from toehold.starting import fast_imports


def main() -> None:
    """Imports the program, and runs it."""
    with packages_of("frontier", "toehold-frontier"), fast_imports():
        from .program import main as serve

    serve()


if __name__ == "__main__":
    main()
