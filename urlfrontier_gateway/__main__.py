"""`toehold-urlfrontier` and `python -m urlfrontier_gateway` start here."""

from .program import main

if __name__ == "__main__":
    main()
