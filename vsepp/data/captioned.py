"""Collections of captioned images in splits, and the problems that readers find in them."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from vsepp.data.image_file import PictureSource
from vsepp.errors import WrongRequest

OnError = Literal["stop", "skip"]
MAX_QUOTED = 120  # characters of a user's text inside a message of ours


@dataclass(frozen=True)
class FeatureTable:
    """One memory-mapped array of features."""

    file: Path
    rows: np.ndarray = field(
        repr=False, compare=False
    )  # (R, D_phi), or maps: (R, C, H, W), (R, L, C)
    repeats: int = 1  # equal rows of one image


@dataclass(frozen=True)
class FeatureRow:
    """The features of an image, in its place."""

    table: FeatureTable
    row: int

    def open(self, short_side: int) -> Image.Image:
        raise WrongRequest(
            f"{self} holds features, and this model needs images. "
            "Use the images, or train a model on features: vsepp train features --data ..."
        )

    def __str__(self) -> str:
        return f"{self.table.file}, row {self.row}"


@dataclass(frozen=True)
class CaptionedImage:
    """One image, its captions and its split."""

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


def have_features(items: Sequence[CaptionedImage]) -> bool:
    """Whether they have features, or maps, instead of images."""
    return bool(items) and all(isinstance(item.path, FeatureRow) for item in items)


@dataclass(frozen=True)
class CaptionedImages:
    """An opened collection."""

    name: str  # path and layout, for messages
    items: Sequence[CaptionedImage]
    left_out: Sequence[str] = ()  # one sentence for each row, image or caption that was skipped
    origin: dict[str, Any] | None = None  # the network that made its features, where known
    # splits that are part of another: restval of train
    within: Mapping[str, str] = field(default_factory=dict)
    collection: str = ""  # coco, f30k or f8k, where known

    def split(self, name: str) -> list[CaptionedImage]:
        """The images of one split, in the collection's order."""
        chosen = [item for item in self.items if item.split == name]
        if not chosen:
            known = ", ".join(self.splits) or "none"
            raise WrongRequest(f"{self.name} has no split {name!r}. Its splits: {known}.")
        return chosen

    def training_items(self, splits: Sequence[str]) -> list[CaptionedImage]:
        """The images of several splits; a split that is part of another one of them is not repeated."""
        return [
            item
            for name in splits
            if not self.comes_with(name, splits)
            for item in self.split(name)
        ]

    def comes_with(self, name: str, splits: Sequence[str]) -> bool:
        """Whether a split is part of another one of these."""
        return self.within.get(name) in splits

    def with_captions(self, number: int) -> "CaptionedImages":
        """The first `number` captions of every image; 0: all."""
        if not number:
            return self
        items = [
            replace(item, captions=item.captions[:number], caption_ids=item.caption_ids[:number])
            for item in self.items
        ]
        return replace(self, items=items)

    @property
    def splits(self) -> dict[str, tuple[int, int]]:
        """Number of images and captions in each split."""
        counts: dict[str, tuple[int, int]] = {}
        for item in self.items:
            images, captions = counts.get(item.split, (0, 0))
            counts[item.split] = images + 1, captions + len(item.captions)
        return counts


def split_named(name: str) -> str:
    """One word for each split: dev, valid and validation are val."""
    name = name.strip().lower()
    return "val" if name in ("dev", "valid", "validation") else name


def split_by_hash(key: str) -> str:
    """80 % train, 10 % val, 10 % test; adding images never moves another from its split."""
    bucket = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % 10
    return {0: "test", 1: "val"}.get(bucket, "train")


def is_plain_name(name: str) -> bool:
    """Whether a name found in somebody's data is safe as the name of a file or folder."""
    return re.fullmatch(r"\w[\w.+ ()-]*", name) is not None


class Problems:
    """What readers cannot use: raises at the first problem, or collects them all."""

    def __init__(self, on_error: OnError = "stop") -> None:
        self.on_error = on_error
        self.left_out: list[str] = []

    def report(self, where: object, what: str) -> None:
        """`where` names file and row, `what` says what was found and what was expected."""
        sentence = f"{where}: {what}"
        if self.on_error == "stop":
            raise WrongRequest(f'{sentence}\nFix it, or skip what is unusable: on_error="skip"')
        self.left_out.append(sentence)


def quote(text: str) -> str:
    """A user's text, cut to a length that fits a message."""
    return text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 1] + "…"


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded as UTF-8: lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
