"""The command line: one verb = parse, call one function, print.

Heavy imports happen inside the verbs, so that `vsepp --help` answers at once.
"""

from vsepp.cli import drawing, learning, measuring, searching  # noqa: F401 they bring their verbs to the app
from vsepp.cli.verbs import app

__all__ = ["app"]
