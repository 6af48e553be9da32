"""The command line: one verb = parse, call one function, print.

Heavy imports happen inside the verbs, so that `vsepp --help` answers at once.
"""

from vsepp.cli import drawing, learning, models, measuring, comparing, searching  # noqa: F401, I001 in the order of --help; they bring their verbs to the app
from vsepp.cli.verbs import app

__all__ = ["app"]
