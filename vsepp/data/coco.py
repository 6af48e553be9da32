"""The COCO 2014 tree, split by arrays of caption ids, or by Karpathy's JSON if they are missing.

images/train2014, images/val2014, annotations/captions_train2014.json, .._val2014.json and
annotations/coco_train_ids.npy, coco_restval_ids.npy, coco_dev_ids.npy, coco_test_ids.npy.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vsepp.data import karpathy
from vsepp.data.captioned import CaptionedImage, CaptionedImages, Problems, split_named
from vsepp.errors import WrongRequest

ANNOTATIONS = "annotations"
YEARS = ("train2014", "val2014")
SPLITS = ("train", "restval", "dev", "test")
CAPTIONS_EACH = 5  # the usual protocol: the first five of the five to seven captions of an image
HOW_TO_GET_SPLITS = (
    "Karpathy's split says which images are for training and which are held out. Put "
    "dataset_coco.json (caption_datasets.zip, cs.stanford.edu/people/karpathy/deepimagesent) into "
    "the folder, or the arrays coco_{train,restval,dev,test}_ids.npy (github.com/naver-ai/pcme, "
    f"datasets/annotations) into its {ANNOTATIONS}."
)


class Caption(NamedTuple):
    text: str
    year: str  # folder of its image
    name: str


class Chosen(NamedTuple):
    """A caption of a split, and the file and row that say so."""

    split: str
    source: Path
    row: int | str
    number: int

    def __str__(self) -> str:
        return (
            f"{self.source}, row {self.row}"
            if isinstance(self.row, int)
            else f"{self.source}, {self.row}"
        )


def recognises(path: Path) -> bool:
    return any((path / ANNOTATIONS / f"captions_{year}.json").is_file() for year in YEARS)


def open_collection(path: Path, problems: Problems) -> CaptionedImages:
    captions = dict(pair for year in YEARS for pair in _captions(path, year, problems))
    chosen, source = _chosen(path, problems)
    present = {year: _names(path / "images" / year) for year in YEARS}
    texts: dict[tuple[str, str], dict[str, str]] = {}  # by caption id
    splits: dict[str, str] = {}
    for where in chosen:
        caption = captions.get(where.number)
        if caption is None:
            problems.report(where, f"{path / ANNOTATIONS} has no caption {where.number}.")
            continue
        _, year, name = caption
        if name not in present[year]:
            missing = path / "images" / year / name
            problems.report(where, f"{missing}, the image of caption {where.number}, is missing.")
        elif splits.setdefault(name, where.split) != where.split:
            problems.report(where, f"{name} is in {where.split} and in {splits[name]}.")
        else:
            texts.setdefault((year, name), {})[str(where.number)] = caption.text
    items = [
        CaptionedImage(
            name, path / "images" / year / name, tuple(found.values()), splits[name], tuple(found)
        )
        for (year, name), found in texts.items()
    ]
    if not items:
        raise WrongRequest(f"{path} has no usable images. {HOW_TO_GET_SPLITS}")
    name = f"{path} (COCO 2014, split by {source})"
    return CaptionedImages(name, items, problems.left_out, collection="coco")


def _captions(root: Path, year: str, problems: Problems) -> Iterator[tuple[int, Caption]]:
    table = root / ANNOTATIONS / f"captions_{year}.json"
    if not table.is_file():
        return
    try:
        content = json.loads(table.read_text(encoding="utf-8"))
        names = {image["id"]: image["file_name"] for image in content["images"]}
        rows = [(a["id"], a["image_id"], a["caption"].strip()) for a in content["annotations"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WrongRequest(f"{table} is not COCO's JSON of captions ({error!r}).") from error
    for number, image, text in rows:
        if image not in names:
            problems.report(f"{table}, caption {number}", f"its image {image} is not in the file.")
        elif not text:
            problems.report(f"{table}, caption {number}", "is empty.")
        else:
            yield number, Caption(text, year, names[image])


def _chosen(root: Path, problems: Problems) -> tuple[list[Chosen], str]:
    """The captions of all splits in order, and the source of the split."""
    arrays = [root / ANNOTATIONS / f"coco_{split}_ids.npy" for split in SPLITS]
    found = [file for file in arrays if file.is_file()]
    if found:
        return [row for file in found for row in _from_array(file, problems)], "its arrays of ids"
    for table in (root / "dataset_coco.json", root / ANNOTATIONS / "dataset_coco.json"):
        if table.is_file():
            return list(_from_karpathy(table, problems)), table.name
    raise WrongRequest(f"{root} is COCO 2014 without splits. {HOW_TO_GET_SPLITS}")


def _from_array(file: Path, problems: Problems) -> Iterator[Chosen]:
    split = split_named(file.name.split("_")[1])
    try:
        ids = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise WrongRequest(f"{file} cannot be read: {error}") from error
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise WrongRequest(
            f"{file}: expected a list of whole numbers, found {ids.dtype} {ids.shape}."
        )
    seen: set[int] = set()
    for row, number in enumerate(ids.tolist()):
        if number in seen:
            problems.report(f"{file}, row {row}", f"the id {number} is a duplicate.")
        else:
            seen.add(number)
            yield Chosen(split, file, row, number)


def _from_karpathy(table: Path, problems: Problems) -> Iterator[Chosen]:
    for entry in karpathy.read_entries(table, problems):
        split = split_named(entry["split"])
        for sentence in entry["sentences"][:CAPTIONS_EACH]:
            if not isinstance(sentence.get("sentid"), int):
                raise WrongRequest(f"{table} has no COCO ids (sentid) at {entry['filename']}.")
            yield Chosen(split, table, entry["filename"], sentence["sentid"])


def _names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()
