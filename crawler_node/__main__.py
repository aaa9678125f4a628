"""`toehold-node` and `python -m crawler_node` start here."""

from toehold_base.process.extras import packages_of
from toehold_base.process.startup import fast_imports


def main() -> None:
    """Imports the program, and runs it."""
    with packages_of("node", "toehold-node"), fast_imports():
        from .program import main as work

    work()


if __name__ == "__main__":
    main()
