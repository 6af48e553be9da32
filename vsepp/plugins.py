"""Plug-ins of other packages, found by the names of their entry points.

A package registers what it offers in one of our groups (docs/extend.md lists them); our own adapters are
entry points, too.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from vsepp.errors import WrongRequest

OURS = "vsepp"


def offered(group: str) -> dict[str, EntryPoint]:
    """By name. Other packages cannot replace ours, in whatever order they are installed."""
    entries = sorted(entry_points(group=group), key=_is_ours)
    return {entry.name: entry for entry in entries}


def loaded(group: str, name: str) -> Any:
    """What an entry point names, or what to install for it."""
    entry = offered(group)[name]
    others = {_package(one) for one in entry_points(group=group, name=name)}
    if len(others) > 1 and not _is_ours(entry):
        raise WrongRequest(
            f"{name} is offered by {' and by '.join(sorted(others))}. Uninstall all but one of them."
        )
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        raise WrongRequest(
            f"{name} needs a package that is not installed ({error}): {_how_to_install(entry)}"
        ) from error


def how_to_install(extra: str) -> str:
    """vsepp is on no package index: a package of that name there is not this one."""
    return f'pip install ".[{extra}]" in the checkout of vsepp'


def _how_to_install(entry: EntryPoint) -> str:
    return how_to_install(entry.name) if _is_ours(entry) else f"pip install {_package(entry)}"


def _is_ours(entry: EntryPoint) -> bool:
    return _package(entry) == OURS


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "the package that offers it"
