"""What other packages offer: an entry point's name is all that we need to know of it.

A package names what it offers in a group of ours (docs/extend.md lists them); our own adapters come in
by the same door.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from vsepp.errors import WrongRequest


def offered(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


def loaded(group: str, name: str) -> Any:
    """What an entry point names, or what to install for it."""
    entry = offered(group)[name]
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        package = entry.dist.name if entry.dist else "the package that offers it"
        wanted = f'"{package}[{name}]"' if package == "vsepp" else package
        raise WrongRequest(
            f"{name} needs a package that is not there ({error}): pip install {wanted}"
        ) from error
