"""Runs the command line, which is a package of its own by now: `python -m toehold_cli`."""

import importlib

if __name__ == "__main__":
    importlib.import_module("toehold_cli.__main__").main()
