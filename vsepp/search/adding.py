"""Adds photos to a collection: embeds what is new or changed, and nothing else.

Progress is stored in the collection itself. A process that is killed loses the batch it was working on,
and the next one resumes from there.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path

from vsepp.errors import WrongRequest
from vsepp.search.embedding import EmbeddedBatch, ShardSummary, Task, Workers, file_batches
from vsepp.search.sources.archives import Shard
from vsepp.search.sources.local import (
    HIDDEN_FILE,
    HIDDEN_FOLDER,
    THUMBNAIL_FOLDER,
    Broken,
    File,
    Listing,
    is_deleted,
    is_thumbnail,
    is_unchanged,
    list_source,
    safe_address,
)
from vsepp.search.sources.remote import is_readable
from vsepp.search.stores.store import FinishedShard, KnownFile, Writer

NO_SUFFIXES = (HIDDEN_FILE, HIDDEN_FOLDER, THUMBNAIL_FOLDER)
MAX_SUFFIXES = 8  # listed, the most frequent ones
MANY_IN_SHARDS = 1_000_000  # photos in finished shards: not read from the store without need


@dataclass(frozen=True)
class IndexingReport:
    """What has been done so far with the `total` photos that were found.

    Images in shards are counted when they are read: `total` grows with the shards that are done.
    """

    total: int
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    gone: int = 0  # deleted from the source, and still in the collection
    broken: tuple[Broken, ...] = ()
    shards: int = 0
    shards_done: int = 0
    # By suffix ("" is none), and hidden files and whole folders. What is in shards is counted when they
    # are read.
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return self.added + self.changed + self.unchanged + len(self.broken)

    def __str__(self) -> str:
        names = ("added", "changed", "unchanged", "removed", "gone", "broken", "skipped")
        counts = vars(self) | {"broken": len(self.broken), "skipped": sum(self.skipped.values())}
        return ", ".join(f"{counts[name]:,} {name}" for name in names if counts[name])


def add_photos(
    writer: Writer, task: Task, place: Path, prune: bool, workers: Workers
) -> Iterator[IndexingReport]:
    """A report before the first batch and after every one; the last report is the final one."""
    listing = list_source(place)
    inventory = _Inventory(writer, place, listing, prune)
    if not listing.files and not listing.shards:
        raise WrongRequest(_no_photos(place, listing, prune and bool(inventory.known)))
    files = inventory.new_files()
    shards = {s.path: _ShardProgress(s, inventory.inside(s)) for s in inventory.unfinished_shards()}
    report = inventory.first_report(len(files))
    yield report
    opened = [Shard(s.file, s.known, requested=path == str(place)) for path, s in shards.items()]
    work = chain(file_batches(list(files.values())), opened)
    for batch in workers.map(task, work) if files or shards else ():
        if batch.shard is None:
            report = _store_files(batch, writer, report, inventory.known, files)
        else:
            report = _store_images(batch, writer, report, shards[batch.shard.path], prune)
        report = replace(report, total=report.done + len(files))
        yield report
    deleted = inventory.deleted()
    if prune:
        writer.remove(deleted)
        yield replace(report, removed=report.removed + len(deleted))
    elif deleted:
        yield replace(report, gone=report.gone + len(deleted))
    writer.optimize()


def skipped_as_text(skipped: Mapping[str, int]) -> str:
    """412 files of other kinds: 398 .mov, 14 .txt; 1 hidden folder"""
    others = {kind: count for kind, count in skipped.items() if kind not in NO_SUFFIXES}
    parts = [counted(skipped[kind], kind) for kind in NO_SUFFIXES if kind in skipped]
    if others:
        most = sorted(others.items(), key=lambda item: (-item[1], item[0]))
        named = [f"{count:,} {kind or 'without a suffix'}" for kind, count in most[:MAX_SUFFIXES]]
        if rest := sum(count for _, count in most[MAX_SUFFIXES:]):
            named.append(f"{rest:,} more")
        files = counted(sum(others.values()), "file")
        parts = [f"{files} of other kinds: {', '.join(named)}", *parts]
    return "; ".join(parts)


def counted(count: int, noun: str) -> str:
    """1 photo, 2,000 photos"""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _no_photos(place: Path, listing: Listing, could_be_pruned: bool) -> str:
    skipped = f", only {skipped_as_text(listing.skipped)}" if listing.skipped else ""
    unsure = " Is the disk mounted? Nothing was removed." if could_be_pruned else ""
    return f"There are no photos below {safe_address(place)}{skipped}.{unsure}"


def _store_files(
    batch: EmbeddedBatch,
    writer: Writer,
    report: IndexingReport,
    known: dict[str, KnownFile],
    pending: dict[str, File],
) -> IndexingReport:
    """Results that came before, from a worker that died, are not counted again."""
    _store(batch, writer, known)
    photos = [item for item in batch.photos if pending.pop(str(item[0].path), None)]
    broken = [item for item in batch.broken if pending.pop(item.path, None)]
    return _count(report, replace(batch, photos=photos, broken=broken), known)


def _store_images(
    batch: EmbeddedBatch,
    writer: Writer,
    report: IndexingReport,
    shard: "_ShardProgress",
    prune: bool,
) -> IndexingReport:
    """A shard that is done is recorded, and not read again unless it changes."""
    was_done = shard.is_done()
    _store(batch, writer, shard.known)
    report = _count(report, shard.without_repeated(batch), shard.known)
    if was_done or not shard.is_done():
        return report
    deleted = shard.summary.deleted
    if prune and deleted:
        writer.remove(deleted)  # before the record, which would be removed with them
    writer.finish_shard(shard.record())
    report = replace(
        report,
        shards_done=report.shards_done + 1,
        unchanged=report.unchanged + shard.summary.images - shard.summary.new,
        skipped=Counter(report.skipped) + Counter(shard.summary.skipped),
    )
    if prune:
        return replace(report, removed=report.removed + len(deleted))
    return replace(report, gone=report.gone + len(deleted))


def _store(batch: EmbeddedBatch, writer: Writer, known: dict[str, KnownFile]) -> None:
    writer.put(batch.photos)
    # What is no longer an image must not be found as what it was; but a disk may be unmounted.
    broken = [item.path for item in batch.broken if item.path in known]
    if former := [path for path in broken if batch.shard or is_readable(path)]:
        writer.remove(former)


def _count(
    report: IndexingReport, batch: EmbeddedBatch, known: dict[str, KnownFile]
) -> IndexingReport:
    photos = [photo for photo, _ in batch.photos]
    before = [known.get(str(photo.path)) for photo in photos]
    added = before.count(None)
    # A file may be touched without a change: its content decides.
    unchanged = sum(
        old is not None and old.content == photo.content
        for photo, old in zip(photos, before, strict=True)
    )
    return replace(
        report,
        added=report.added + added,
        unchanged=report.unchanged + unchanged,
        changed=report.changed + len(photos) - added - unchanged,
        broken=report.broken + tuple(batch.broken),
    )


class _ShardProgress:
    """The results of a shard: in any order, and twice where a worker died."""

    def __init__(self, file: File, known: dict[str, KnownFile]) -> None:
        self.file = file
        self.known = known
        self.summary = ShardSummary(0, -1)  # not known yet
        self._photos: set[str] = set()
        self._broken: set[str] = set()

    def without_repeated(self, batch: EmbeddedBatch) -> EmbeddedBatch:
        photos = [item for item in batch.photos if str(item[0].path) not in self._photos]
        broken = [item for item in batch.broken if item.path not in self._broken]
        self._photos.update(str(photo.path) for photo, _ in photos)
        self._broken.update(item.path for item in broken)
        self.summary = batch.summary or self.summary
        return replace(batch, photos=photos, broken=broken)

    def is_done(self) -> bool:
        if self.file.path in self._broken:  # could not be read to its end
            return False
        return len(self._photos) + len(self._broken) == self.summary.new

    def record(self) -> FinishedShard:
        file, photos = self.file, len(self._photos) + self.summary.images - self.summary.new
        return FinishedShard(file.path, file.size, file.modified, photos, len(self._broken))


class _Inventory:
    """What a collection contains of a source, compared with what is there now."""

    def __init__(self, writer: Writer, place: Path, listing: Listing, prune: bool) -> None:
        self._writer = writer
        self._place = place
        self._listing = listing
        self._prune = prune
        self._finished = writer.finished_shards(str(place))
        in_shards = sum(shard.photos for shard in self._finished.values())
        self._complete = bool(listing.files) or prune or in_shards < MANY_IN_SHARDS
        self.known = writer.known(str(place)) if self._complete else {}
        self._inside = self._by_shard({shard.path for shard in listing.shards})

    def _by_shard(self, shards: set[str]) -> dict[str, dict[str, KnownFile]]:
        @cache  # photos share folders
        def shard_of(folder: str) -> str:
            while folder and folder not in shards:
                folder = folder.rpartition(os.sep)[0]
            return folder

        inside: dict[str, dict[str, KnownFile]] = defaultdict(dict)
        for path, known in self.known.items() if shards else ():
            if shard := shard_of(path.rpartition(os.sep)[0]):
                inside[shard][path] = known
        return inside

    def inside(self, shard: File) -> dict[str, KnownFile]:
        return self._inside[shard.path] if self._complete else self._writer.known(shard.path)

    def new_files(self) -> dict[str, File]:
        """And changed ones."""
        return {f.path: f for f in self._listing.files if not is_unchanged(f, self.known)}

    def unfinished_shards(self) -> list[File]:
        return [shard for shard in self._listing.shards if not self._is_finished(shard)]

    def _is_finished(self, shard: File) -> bool:
        record = self._finished.get(shard.path)
        if record is None or (record.size, record.modified) != (shard.size, shard.modified):
            return False
        # With fewer photos than recorded, some were removed; with more, there are some to prune.
        surplus = len(self._inside[shard.path]) - record.photos if self._complete else 0
        return surplus == 0 or (surplus > 0 and not self._prune)

    def first_report(self, new_files: int) -> IndexingReport:
        listing, finished = self._listing, self._finished
        done = [finished[shard.path] for shard in listing.shards if self._is_finished(shard)]
        unchanged = len(listing.files) - new_files + sum(shard.photos for shard in done)
        return IndexingReport(
            unchanged + new_files + len(listing.broken),
            unchanged=unchanged,
            gone=sum(max(0, len(self._inside[s.path]) - s.photos) for s in done if self._inside),
            broken=tuple(listing.broken),
            shards=len(listing.shards),
            shards_done=len(done),
            skipped=dict(listing.skipped),
        )

    def deleted(self) -> list[str]:
        """Files and whole shards. Images that a shard lacks are found when it is read."""
        present = {file.path for file in self._listing.files}
        present.update(*self._inside.values())
        missing = self.known.keys() - present
        if not self._complete:
            shards = self._finished.keys() - {shard.path for shard in self._listing.shards}
            missing = {p for s in shards if is_deleted(s) for p in self._writer.known(s)}
        return [path for path in missing if is_deleted(path) or is_thumbnail(path, self._place)]
