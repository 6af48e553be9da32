"""python -m vsepp: the command line, also from a checkout that is not installed."""

from vsepp.cli import app

if __name__ == "__main__":
    app(prog_name="vsepp")
