"""The command line: one verb = parse, call one function, print.

Heavy imports happen inside the verbs, so that `vsepp --help` answers at once.
"""

from vsepp.cli import drawing, learning, searching
from vsepp.cli.verbs import app

__all__ = ["app", "drawing", "learning", "searching"]
