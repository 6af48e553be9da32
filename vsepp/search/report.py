"""What adding photos has done: how many were added, changed, removed, broken or skipped."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vsepp.search.walk import HIDDEN_FILE, HIDDEN_FOLDER, THUMBNAIL_FOLDER, Broken

NOT_SUFFIXES = (HIDDEN_FILE, HIDDEN_FOLDER, THUMBNAIL_FOLDER)
MOST_KINDS = 8  # that are named, the most frequent ones


@dataclass(frozen=True)
class Report:
    """What has been done so far with the `total` photos that were found.

    What is in shards is counted as it is found: `total` grows with the shards that are done.
    """

    total: int
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    gone: int = 0  # from the folder, and still in the collection
    broken: tuple[Broken, ...] = ()
    shards: int = 0
    shards_done: int = 0
    # Files that are no photos by their suffixes ("" is none), hidden ones and whole folders, by kind. What is
    # in shards is counted when they are opened.
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return self.added + self.changed + self.unchanged + len(self.broken)

    def __str__(self) -> str:
        parts = {name: getattr(self, name) for name in ("added", "changed", "unchanged", "removed")}
        parts["gone (--prune drops what is gone)"] = self.gone
        parts["broken"] = len(self.broken)
        parts["skipped"] = sum(self.skipped.values())
        return ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)


def skipped_as_text(skipped: Mapping[str, int]) -> str:
    """412 files of other kinds: 398 .mov, 14 .txt; 1 hidden folder"""
    others = {kind: count for kind, count in skipped.items() if kind not in NOT_SUFFIXES}
    parts = [counted(skipped[kind], kind) for kind in NOT_SUFFIXES if kind in skipped]
    if others:
        files = counted(sum(others.values()), "file")
        parts = [f"{files} of other kinds: {_by_kind(others)}", *parts]
    return "; ".join(parts)


def counted(count: int, noun: str) -> str:
    """1 photo, 2,000 photos"""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _by_kind(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{count:,} {kind or 'without a suffix'}" for kind, count in most[:MOST_KINDS]]
    left = sum(count for _, count in most[MOST_KINDS:])
    return ", ".join([*named, f"{left:,} more"] if left else named)
