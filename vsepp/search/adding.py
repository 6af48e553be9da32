"""Adds photos to a collection: embeds what is new or changed, and only that.

What is done is in the collection itself. Killed at any moment, a process loses what it was working
on, and the next one goes on from there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from vsepp.errors import WrongRequest
from vsepp.search.embedding import Made, Tally
from vsepp.search.places import address, is_gone
from vsepp.search.remembered import FinishedShard, Known
from vsepp.search.sources import Found, Part, Shard, look_at, looks_the_same, runs
from vsepp.search.store import Ledger
from vsepp.search.walk import Broken, File
from vsepp.search.workers import Task, Workers


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

    @property
    def done(self) -> int:
        return self.added + self.changed + self.unchanged + len(self.broken)

    def __str__(self) -> str:
        parts = {name: getattr(self, name) for name in ("added", "changed", "unchanged", "removed")}
        parts["gone (--prune drops what is gone)"] = self.gone
        parts["broken"] = len(self.broken)
        return ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)


def adding(
    ledger: Ledger, task: Task, place: Path, prune: bool, workers: Workers
) -> Iterator[Report]:
    """A report before the first batch and after every one; the last report is the final one."""
    found = look_at(place)
    if found.shards:
        yield from _shards(ledger, task, place, found, prune, workers)
    else:
        yield from _files(ledger, task, place, found, prune, workers)
    ledger.settle()


# ---- a folder of photos ---------------------------------------------------------------------


def _files(
    ledger: Ledger, task: Task, place: Path, found: Found, prune: bool, workers: Workers
) -> Iterator[Report]:
    known = ledger.below(str(place))
    if not found.files:
        raise WrongRequest(
            f"There are no photos below {address(place)}."
            + (" Is the disk there? Nothing was removed." if prune and known else "")
        )
    waiting = [file for file in found.files if not looks_the_same(file, known)]
    unchanged = len(found.files) - len(waiting)
    total = len(found.files) + len(found.broken)
    report = Report(total, unchanged=unchanged, broken=tuple(found.broken))
    yield report
    for made in workers.map(task, runs(waiting)) if waiting else ():
        _store(made, ledger, known)
        report = _counted(report, made, known)
        yield report
    gone = [path for path in known.keys() - {file.path for file in found.files} if is_gone(path)]
    if prune:
        ledger.remove(gone)
        yield replace(report, removed=len(gone))
    elif gone:
        yield replace(report, gone=len(gone))


def _store(made: Made, ledger: Ledger, known: dict[str, Known]) -> None:
    ledger.put(made.photos)
    # What once was a photo and now is none must not be found as what it was.
    ledger.remove(item.path for item in made.broken if item.path in known)


def _counted(report: Report, made: Made, known: dict[str, Known]) -> Report:
    photos = [photo for photo, _ in made.photos]
    before = [known.get(str(photo.path)) for photo in photos]
    added = before.count(None)
    # A file may be touched and stay what it was: its content decides.
    unchanged = sum(
        old is not None and old.content == photo.content
        for photo, old in zip(photos, before, strict=True)
    )
    return replace(
        report,
        added=report.added + added,
        unchanged=report.unchanged + unchanged,
        changed=report.changed + len(photos) - added - unchanged,
        broken=report.broken + tuple(made.broken),
    )


# ---- shards ---------------------------------------------------------------------------------


def _shards(
    ledger: Ledger, task: Task, place: Path, found: Found, prune: bool, workers: Workers
) -> Iterator[Report]:
    """A shard that is done is written down, and not opened again unless it changes."""
    if prune:
        raise WrongRequest("--prune is for folders of photos. Index shards into a new collection.")
    finished = ledger.finished(str(place))
    waiting = [shard for shard in found.shards if not _is_finished(shard, finished)]
    counted = {shard.path: _Counted(shard, ledger.below(shard.path)) for shard in waiting}
    report = Report(
        0,
        unchanged=sum(shard.photos for shard in finished.values() if shard.path not in counted),
        broken=tuple(found.broken),
        shards=len(found.shards),
        shards_done=len(found.shards) - len(waiting),
    )
    yield replace(report, total=report.done)
    parts: list[Part] = [Shard(shard.shard, shard.known) for shard in counted.values()]
    for made in workers.map(task, parts) if parts else ():
        assert made.shard is not None
        shard = counted[made.shard.path]
        _store(made, ledger, shard.known)
        report = _counted(report, shard.fresh(made), shard.known)
        if shard.is_done():
            ledger.finish(shard.finished())
            report = replace(
                report,
                shards_done=report.shards_done + 1,
                unchanged=report.unchanged + shard.passed_over,
            )
            del counted[made.shard.path]
        yield replace(report, total=report.done)


def _is_finished(shard: File, finished: dict[str, FinishedShard]) -> bool:
    before = finished.get(shard.path)
    return before is not None and (before.size, before.modified) == (shard.size, shard.modified)


class _Counted:
    """What has come of a shard: in any order, and twice where a worker died."""

    def __init__(self, shard: File, known: dict[str, Known]) -> None:
        self.shard = shard
        self.known = known
        self._photos: set[str] = set()
        self._broken: set[str] = set()
        self._tally: Tally | None = None

    def fresh(self, made: Made) -> Made:
        """Less what has come before."""
        photos = [item for item in made.photos if str(item[0].path) not in self._photos]
        broken = [item for item in made.broken if item.path not in self._broken]
        self._photos.update(str(photo.path) for photo, _ in photos)
        self._broken.update(item.path for item in broken)
        self._tally = made.tally or self._tally
        return replace(made, photos=photos, broken=broken)

    def is_done(self) -> bool:
        if self._tally is None or self.shard.path in self._broken:  # could not be read to its end
            return False
        return len(self._photos) + len(self._broken) == self._tally.wanted

    @property
    def passed_over(self) -> int:
        return self._tally.members - self._tally.wanted if self._tally else 0

    def finished(self) -> FinishedShard:
        shard, photos = self.shard, len(self._photos) + self.passed_over
        return FinishedShard(shard.path, shard.size, shard.modified, photos, len(self._broken))
