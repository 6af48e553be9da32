"""Recognises the layout of a collection, opens it, and checks every image before hours are spent on it."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from PIL import Image

from vsepp.data import coco, features, folder, karpathy, shapes, webdataset
from vsepp.data.captioned import (
    CaptionedImage,
    CaptionedImages,
    FeatureRow,
    FeatureTable,
    OnError,
    Problems,
)
from vsepp.data.features import unusable_rows
from vsepp.data.image_file import PictureSource
from vsepp.data.pictures import open_picture, opened
from vsepp.data.resources import made_ahead
from vsepp.errors import WorkFailed, WrongRequest

T = TypeVar("T")
LAYOUTS = """\
  a folder with captions.csv, .tsv or .jsonl and its images   image,caption,split
  tar shards (WebDataset), KEY.jpg beside KEY.json            {"captions": ["..."], "split": "train"}
  Karpathy's JSON with its images                             dataset_flickr30k.json, images/*.jpg
  the COCO 2014 tree                                          annotations/captions_train2014.json, images/train2014/*.jpg
  precomputed features                                        train_ims.npy, train_caps.txt
  generated scenes                                            shapes:4000"""
NAMES = {"coco": ("coco",), "f30k": ("f30k", "flickr30k"), "f8k": ("f8k", "flickr8k")}
CHUNK = 64  # images that a thread checks at a time
ENDS = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82", "GIF": b";"}

Finding = tuple[CaptionedImage, str | None]  # an image, and why it cannot be used


@dataclass(frozen=True)
class DataOptions:
    """How a collection is read."""

    on_error: OnError = "stop"
    captions: int = 0  # the first N of each image; 0: all


DEFAULTS = DataOptions()


class Reader(Protocol):
    """What the module of a layout offers."""

    def recognises(self, path: Path) -> bool: ...

    def open_collection(self, path: Path, problems: Problems) -> CaptionedImages: ...


class Track(Protocol):
    """Passes items through and may show progress, as the command line does."""

    def __call__(self, items: Iterable[T], description: str, total: int) -> Iterable[T]: ...


# The first that recognises a path opens it; a COCO tree may contain Karpathy's JSON, too.
READERS: tuple[Reader, ...] = (folder, coco, karpathy, features, webdataset)


def no_progress(items: Iterable[T], description: str, total: int) -> Iterable[T]:
    return items


def open_data(where: str | Path, on_error: OnError = "stop") -> CaptionedImages:
    """Open a path, or `shapes:N` for generated scenes, as captioned images.

    A row, caption or image that cannot be used is an error that names it; with `on_error="skip"`
    it is left out, and the collection's `left_out` says why.
    """
    if str(where).startswith("shapes:"):
        return shapes.open_world(str(where))
    if "://" in str(where):
        raise WrongRequest(
            f"{where} is a URL. Collections to train or evaluate on are read from a disk: copy it "
            "into a folder first. (vsepp index and vsepp search accept URLs.)"
        )
    path = Path(where).expanduser()
    if not path.exists():
        raise WrongRequest(f"{path} does not exist. Supported layouts:\n{LAYOUTS}")
    for reader in READERS:
        if reader.recognises(path):
            data = reader.open_collection(path, Problems(on_error))
            return replace(data, collection=data.collection or _collection_named(path, data))
    raise WrongRequest(f"{path} has none of the supported layouts:\n{LAYOUTS}")


def open_checked(
    where: str,
    options: DataOptions = DEFAULTS,
    splits: Iterable[str] = (),
    track: Track = no_progress,
) -> CaptionedImages:
    """The collection, or some of its splits, without what cannot be used."""
    on_error = options.on_error
    data = open_data(where, on_error).with_captions(options.captions)
    if splits:
        items = [item for split in splits for item in data.split(split)]
        data = replace(data, items=items)
    # Only images that cannot be decoded may be skipped, so all of them are decoded.
    data = checked(data, Problems(on_error), thorough=on_error == "skip", track=track)
    if not data.items:
        raise WrongRequest(f"{data.name}: nothing in it can be used. {data.left_out[0]}")
    return data


def checked(
    data: CaptionedImages, problems: Problems, thorough: bool = False, track: Track = no_progress
) -> CaptionedImages:
    """The collection without what cannot be used; `problems` raises at the first, or collects them.

    Header and end of every image are read; a `thorough` check decodes it, so that none can stop a
    run hours later.
    """
    usable = []
    findings = _findings(data.items, thorough)
    for item, complaint in track(findings, "checking images", len(data.items)):
        if complaint:
            problems.report(item.path, complaint)
        else:
            usable.append(item)
    return replace(data, items=usable, left_out=[*data.left_out, *problems.left_out])


def summarize_left_out(left_out: Sequence[str], shown: int = 5) -> str:
    """How much was left out, and the first few reasons."""
    lines = [f"Left out: {len(left_out):,}."]
    lines += [f"  {sentence}" for sentence in left_out[:shown]]
    if len(left_out) > shown:
        lines.append(f"  and {len(left_out) - shown:,} more")
    return "\n".join(lines)


def picture_complaint(source: Path | PictureSource, thorough: bool = False) -> str | None:
    """Why an image cannot be used, if so: it has no image header, or is truncated."""
    try:
        with opened(source, 1) as picture:
            is_whole = not thorough and _ends_as_it_should(picture)
        if not is_whole:
            open_picture(source, 1)
    except WorkFailed as error:
        return f"{str(error).removeprefix(f'{source} ')}. Replace it, or remove it."
    return None


def _collection_named(path: Path, data: CaptionedImages) -> str:
    """Which of the field's collections it is, by the name of its folder or table."""
    sources = data.name, str((data.origin or {}).get("data", ""))  # or what its features are of
    tables = [Path(source.partition(" (")[0]).name for source in sources]
    names = " ".join([path.resolve().name, *tables]).lower()
    found = [key for key, names_of in NAMES.items() if any(name in names for name in names_of)]
    return found[0] if len(found) == 1 else ""


def _findings(items: Sequence[CaptionedImage], thorough: bool) -> Iterator[Finding]:
    tables = {item.path.table for item in items if isinstance(item.path, FeatureRow)}
    unusable = {table: dict(unusable_rows(table)) for table in tables}

    def check(chunk: Sequence[CaptionedImage]) -> list[Finding]:
        return [(item, _complaint(item, unusable, thorough)) for item in chunk]

    chunks = (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
    for found in made_ahead(chunks, check):
        yield from found


def _complaint(
    item: CaptionedImage, unusable: dict[FeatureTable, dict[int, str]], thorough: bool
) -> str | None:
    source = item.path
    if isinstance(source, FeatureRow):
        rows = range(source.row, source.row + source.table.repeats)
        found = (unusable[source.table].get(row) for row in rows)
        return next((complaint for complaint in found if complaint), None)
    return picture_complaint(source, thorough)


def _ends_as_it_should(picture: Image.Image) -> bool:
    """The last bytes tell for most formats; where they do not, the image is decoded."""
    end = ENDS.get(picture.format or "")
    file = getattr(picture, "fp", None)
    if end is None or file is None:
        return picture.format is None  # rendered, not read
    file.seek(-len(end), io.SEEK_END)
    return bool(file.read() == end)
