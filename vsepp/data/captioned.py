"""What every collection is made of: pictures with their captions, in splits."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from vsepp.errors import WrongRequest


class PictureSource(Protocol):
    """A picture that is not a file of its own: a member of a tar shard, a rendered scene."""

    def open(self, short_side: int) -> Image.Image:
        """The picture, at least `short_side` pixels high and wide where it has that many."""


@dataclass(frozen=True)
class CaptionedImage:
    """One picture, its captions, and the split that it belongs to."""

    key: str
    path: Path | PictureSource
    captions: tuple[str, ...]
    split: str
    caption_ids: tuple[str, ...] = ()  # as the collection numbers them, where it does

    @property
    def ids_of_captions(self) -> tuple[str, ...]:
        """An id for each caption; where the collection has none, KEY#0, KEY#1 and so on."""
        if len(self.caption_ids) == len(self.captions):
            return self.caption_ids
        return tuple(f"{self.key}#{number}" for number in range(len(self.captions)))


@dataclass(frozen=True)
class CaptionedImages:
    """A collection that has been recognised and opened."""

    name: str  # what it was taken for, in words
    items: Sequence[CaptionedImage]
    left_out: Sequence[str] = ()  # a sentence for each row, picture or caption that cannot be used
    origin: dict[str, Any] | None = None  # the net that made its features, where that is known
    # splits that are part of another: restval of train
    within: Mapping[str, str] = field(default_factory=dict)
    collection: str = ""  # coco, f30k or f8k, where that is known

    def split(self, name: str) -> list[CaptionedImage]:
        """The pictures of one split, in the collection's order."""
        chosen = [item for item in self.items if item.split == name]
        if not chosen:
            known = ", ".join(self.splits) or "none"
            raise WrongRequest(
                f"{self.name} has no split {name!r}. Its splits: {known}. Give its pictures a split, or "
                "name others: --split for evaluate, --set data.train and data.validate for train."
            )
        return chosen

    def training_items(self, splits: Sequence[str]) -> list[CaptionedImage]:
        """The pictures of several splits, one after another; those within another come with it."""
        return [
            item
            for name in splits
            if not self.comes_with(name, splits)
            for item in self.split(name)
        ]

    def comes_with(self, name: str, splits: Sequence[str]) -> bool:
        """Whether a split is there as part of another one of these."""
        return self.within.get(name) in splits

    def with_captions(self, number: int) -> "CaptionedImages":
        """The first `number` captions of every picture; 0: all."""
        if not number:
            return self
        items = [
            replace(item, captions=item.captions[:number], caption_ids=item.caption_ids[:number])
            for item in self.items
        ]
        return replace(self, items=items)

    @property
    def splits(self) -> dict[str, tuple[int, int]]:
        """Pictures and captions of each split."""
        counts: dict[str, tuple[int, int]] = {}
        for item in self.items:
            pictures, captions = counts.get(item.split, (0, 0))
            counts[item.split] = pictures + 1, captions + len(item.captions)
        return counts


def split_named(name: str) -> str:
    """One word for each split: what some call dev, validation or valid is val here."""
    name = name.strip().lower()
    return "val" if name in ("dev", "valid", "validation") else name


def split_by_hash(key: str) -> str:
    """80 % train, 10 % val, 10 % test; adding pictures never moves another from its split."""
    bucket = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % 10
    return {0: "test", 1: "val"}.get(bucket, "train")


def is_plain_name(name: str) -> bool:
    """Whether a name that somebody wrote into their data can be that of a file or folder."""
    return re.fullmatch(r"\w[\w.+ ()-]*", name) is not None
