"""What a collection holds of a place, compared with what is found there now."""

import os
from collections import defaultdict
from functools import cache
from pathlib import Path

from vsepp.search.places import is_gone
from vsepp.search.remembered import Known
from vsepp.search.report import Report
from vsepp.search.sources import Found, looks_the_same
from vsepp.search.store import Ledger
from vsepp.search.walk import File, in_thumbnails

LARGE = 1_000_000  # photos in finished shards: they are not looked up without need


class Inventory:
    """What is known, file by file and shard by shard."""

    def __init__(self, ledger: Ledger, place: Path, found: Found, prune: bool) -> None:
        self._ledger = ledger
        self._place = place
        self._found = found
        self._prune = prune
        self._finished = ledger.finished(str(place))
        in_shards = sum(shard.photos for shard in self._finished.values())
        self._complete = bool(found.files) or prune or in_shards < LARGE
        self.known = ledger.below(str(place)) if self._complete else {}
        self._inside = self._by_shard({shard.path for shard in found.shards})

    def _by_shard(self, shards: set[str]) -> dict[str, dict[str, Known]]:
        @cache  # photos share folders
        def shard_of(folder: str) -> str:
            while folder and folder not in shards:
                folder = folder.rpartition(os.sep)[0]
            return folder

        inside: dict[str, dict[str, Known]] = defaultdict(dict)
        for path, known in self.known.items() if shards else ():
            if shard := shard_of(path.rpartition(os.sep)[0]):
                inside[shard][path] = known
        return inside

    def inside(self, shard: File) -> dict[str, Known]:
        return self._inside[shard.path] if self._complete else self._ledger.below(shard.path)

    def new_files(self) -> dict[str, File]:
        """And changed ones."""
        return {f.path: f for f in self._found.files if not looks_the_same(f, self.known)}

    def unfinished(self) -> list[File]:
        """Shards that have to be opened."""
        return [shard for shard in self._found.shards if not self._is_finished(shard)]

    def _is_finished(self, shard: File) -> bool:
        mark = self._finished.get(shard.path)
        if mark is None or (mark.size, mark.modified) != (shard.size, shard.modified):
            return False
        # A mark whose photos were removed is worth nothing; one with too many has some to prune.
        surplus = len(self._inside[shard.path]) - mark.photos if self._complete else 0
        return surplus == 0 or (surplus > 0 and not self._prune)

    def first_report(self, new_files: int) -> Report:
        found, finished = self._found, self._finished
        done = [finished[shard.path] for shard in found.shards if self._is_finished(shard)]
        unchanged = len(found.files) - new_files + sum(shard.photos for shard in done)
        return Report(
            unchanged + new_files + len(found.broken),
            unchanged=unchanged,
            gone=sum(max(0, len(self._inside[s.path]) - s.photos) for s in done if self._inside),
            broken=tuple(found.broken),
            shards=len(found.shards),
            shards_done=len(done),
            skipped=dict(found.skipped),
        )

    def gone(self) -> list[str]:
        """Files, and shards as a whole. Members that a shard lacks are found when it is opened."""
        here = {file.path for file in self._found.files}
        here.update(*self._inside.values())
        missing = self.known.keys() - here
        if not self._complete:
            marks = self._finished.keys() - {shard.path for shard in self._found.shards}
            missing = {p for shard in marks if is_gone(shard) for p in self._ledger.below(shard)}
        return [path for path in missing if is_gone(path) or in_thumbnails(path, self._place)]
