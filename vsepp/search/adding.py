"""Adds photos to a collection: embeds what is new or changed, and only that.

What is done is in the collection itself. Killed at any moment, a process loses what it was working
on, and the next one goes on from there.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from vsepp.errors import WrongRequest
from vsepp.search.embedding import Made, Tally
from vsepp.search.inventory import Inventory
from vsepp.search.places import can_be_read, shown
from vsepp.search.remembered import FinishedShard, Known
from vsepp.search.report import Report, skipped_as_text
from vsepp.search.sources import Found, Part, Shard, look_at, runs
from vsepp.search.store import Ledger
from vsepp.search.walk import File
from vsepp.search.workers import Task, Workers


def adding(
    ledger: Ledger, task: Task, place: Path, prune: bool, workers: Workers
) -> Iterator[Report]:
    """A report before the first batch and after every one; the last report is the final one."""
    found = look_at(place)
    inventory = Inventory(ledger, place, found, prune)
    if not found.files and not found.shards:
        raise WrongRequest(_nothing(place, found, prune and bool(inventory.known)))
    files = inventory.new_files()
    shards = {s.path: _OpenShard(s, inventory.inside(s)) for s in inventory.unfinished()}
    report = inventory.first_report(len(files))
    yield report
    parts = _parts(list(files.values()), shards, place)
    for made in workers.map(task, parts) if files or shards else ():
        if made.shard is None:
            report = _store_files(made, ledger, report, inventory.known, files)
        else:
            report = _store_members(made, ledger, report, shards[made.shard.path], prune)
        report = replace(report, total=report.done + len(files))
        yield report
    gone = inventory.gone()
    if prune:
        ledger.remove(gone)
        yield replace(report, removed=report.removed + len(gone))
    elif gone:
        yield replace(report, gone=report.gone + len(gone))
    ledger.settle()


def _nothing(place: Path, found: Found, could_be_pruned: bool) -> str:
    skipped = f", only {skipped_as_text(found.skipped)}" if found.skipped else ""
    unsure = " Is the disk there? Nothing was removed." if could_be_pruned else ""
    return f"There are no photos below {shown(place)}{skipped}.{unsure}"


def _parts(files: list[File], shards: dict[str, "_OpenShard"], place: Path) -> Iterator[Part]:
    opened = [Shard(s.shard, s.known, alone=path == str(place)) for path, s in shards.items()]
    return chain(runs(files), opened)


def _store_files(
    made: Made, ledger: Ledger, report: Report, known: dict[str, Known], waiting: dict[str, File]
) -> Report:
    """What came before, from a worker that died, is not counted again."""
    _store(made, ledger, known)
    photos = [item for item in made.photos if waiting.pop(str(item[0].path), None)]
    broken = [item for item in made.broken if waiting.pop(item.path, None)]
    return _counted(report, replace(made, photos=photos, broken=broken), known)


def _store_members(
    made: Made, ledger: Ledger, report: Report, shard: "_OpenShard", prune: bool
) -> Report:
    """A shard that is done is written down, and not opened again unless it changes."""
    was_done = shard.is_done()
    _store(made, ledger, shard.known)
    report = _counted(report, shard.fresh(made), shard.known)
    if was_done or not shard.is_done():
        return report
    if prune and shard.gone:
        ledger.remove(shard.gone)  # before the mark, which goes with them
    ledger.finish(shard.finished())
    report = replace(
        report,
        shards_done=report.shards_done + 1,
        unchanged=report.unchanged + shard.passed_over,
        skipped=Counter(report.skipped) + Counter(shard.skipped),
    )
    if prune:
        return replace(report, removed=report.removed + len(shard.gone))
    return replace(report, gone=report.gone + len(shard.gone))


def _store(made: Made, ledger: Ledger, known: dict[str, Known]) -> None:
    ledger.put(made.photos)
    # What once was a photo and now is none must not be found as what it was; a disk may be away.
    broken = [item.path for item in made.broken if item.path in known]
    if former := [path for path in broken if made.shard or can_be_read(path)]:
        ledger.remove(former)


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


class _OpenShard:
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

    @property
    def gone(self) -> tuple[str, ...]:
        """Known, and not in the shard any more."""
        return self._tally.gone if self._tally else ()

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._tally.skipped if self._tally else {}

    def finished(self) -> FinishedShard:
        shard, photos = self.shard, len(self._photos) + self.passed_over
        return FinishedShard(shard.path, shard.size, shard.modified, photos, len(self._broken))
