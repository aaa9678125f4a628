"""`toehold-urlfrontier` and `python -m urlfrontier_gateway` start here."""

from toehold_base.process.extras import packages_of
from toehold_base.process.startup import fast_imports


def main() -> None:
    """Imports the program, and runs it."""
    with packages_of("urlfrontier", "toehold-urlfrontier"), fast_imports():
        from .program import main as serve

    serve()


if __name__ == "__main__":
    main()
