"""Published probes: SugarCrepe (Hsieh et al., 2023), ARO (Yuksekgonul et al., 2023), FOIL (Shekhar et al., 2017) and
Winoground (Thrush et al., 2022). Their pictures are one's own to get.
"""

import ast
import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsepp.data.image_file import PictureSource
from vsepp.errors import WrongRequest
from vsepp.evaluation.probes.probe import CroppedPicture, Probe

KNOWN = (
    "SugarCrepe's add_att.json and others (a file, or the folder of them), ARO's visual_genome_relation.json and "
    "visual_genome_attribution.json, NegCLIP's valid_neg_clip.tsv, FOIL's foilv1.0_test_2017.json, Winoground's examples.jsonl"
)
COCO_NAME = re.compile(r"(?:COCO_(?:train|val)2014_)?(\d{12})\.jpg")
COCO_EDITIONS = ("", "COCO_val2014_", "COCO_train2014_")
PARTS = {"att": "attribute", "obj": "object", "rel": "relation", "ent": "entity"}


@dataclass(frozen=True)
class PublishedProbes:
    """Those probes of a file whose pictures are there."""

    probes: Sequence[Probe]
    total: int  # in the file
    remarks: Sequence[str] = ()

    @property
    def share(self) -> str:
        """Empty where all are there: otherwise accuracies are those of a part."""
        some = len(self.probes)
        return f"{some:,} of {self.total:,} probes" if some < self.total else ""


def read_probes(path: Path, pictures: Path) -> PublishedProbes:
    """The probes of a file, or of a folder of SugarCrepe's; those whose pictures are not there are left out."""
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        found = [probe for file in files for probe in _read_file(file, pictures)]
    elif path.is_file():
        found = _read_file(path, pictures)
    else:
        raise WrongRequest(f"There are no probes at {path}. Known files: {KNOWN}.")
    there = [probe for probe in found if _file_of(probe.picture).is_file()]
    some = [probe for probe in there if not _is_empty(probe.picture)]
    if not some:
        first = f", such as {_file_of(found[0].picture)}" if found else ""
        raise WrongRequest(
            f"{path}: none of the pictures of its {len(found):,} probes is there{first}."
        )
    left_out = (
        (len(found) - len(there), f"their pictures are not in {pictures}"),
        (len(there) - len(some), "their boxes are empty"),
    )
    remarks = [
        f"{path.name}: {number:,} of {len(found):,} probes are left out, as {why}."
        for number, why in left_out
        if number
    ]
    return PublishedProbes(some, len(found), remarks)


def beside(path: Path) -> Path:
    """Where the pictures of a file of probes are, unless one says: as ARO has them, in `images`."""
    folders = [path.parent / "images", path.parent]
    if path.is_dir():
        folders.insert(0, path / "images")
    return next((folder for folder in folders if folder.is_dir()), path.parent)


def _file_of(picture: Path | PictureSource) -> Path:
    if isinstance(picture, Path):
        return picture
    assert isinstance(picture, CroppedPicture)
    return picture.file


def _is_empty(picture: Path | PictureSource) -> bool:
    if not isinstance(picture, CroppedPicture):
        return False
    left, top, right, bottom = picture.box
    return right <= left or bottom <= top


def _read_file(file: Path, pictures: Path) -> list[Probe]:
    text = file.read_text(encoding="utf-8")
    try:
        if file.suffix == ".tsv":
            # A quoted caption may go over several lines.
            rows = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
            return list(_negclip(rows, pictures))
        if file.suffix == ".jsonl":
            return list(_pairs((json.loads(line) for line in text.splitlines() if line), pictures))
        content = json.loads(text)
        if isinstance(content, list):
            return list(_aro(content, pictures, file.stem))
        if "annotations" in content:
            return list(_foil(content, pictures))
        return list(_sugar_crepe(content.values(), pictures, file.stem))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WrongRequest(
            f"{file} is none of the files that are known ({error!r}): {KNOWN}."
        ) from error


def coco_picture(folder: Path, name: str) -> Path:
    """A photo of COCO, which has one name in the edition of 2014 and another in that of 2017."""
    number = COCO_NAME.fullmatch(name)
    if number is None or (folder / name).is_file():
        return folder / name
    names = [f"{edition}{number[1]}.jpg" for edition in COCO_EDITIONS]
    return next((folder / one for one in names if (folder / one).is_file()), folder / name)


def _sugar_crepe(entries: Iterable[dict[str, Any]], pictures: Path, stem: str) -> Iterable[Probe]:
    """{"0": {"filename": ..., "caption": ..., "negative_caption": ...}}; the file's name says the kind."""
    change, _, part = stem.partition("_")
    kind = f"{PARTS.get(part, part)} ({change})"
    for entry in entries:
        picture = coco_picture(pictures, entry["filename"])
        yield Probe(kind, picture, entry["caption"], (entry["negative_caption"],))


def _aro(entries: Iterable[dict[str, Any]], pictures: Path, stem: str) -> Iterable[Probe]:
    """Visual Genome relation and attribution: a box of a picture, a true and a false caption."""
    for entry in entries:
        left, top, width, height = (int(entry[f"bbox_{side}"]) for side in "xywh")
        box = left, top, left + width, top + height
        kind = "relation (ARO)" if "relation_name" in entry else "attribute (ARO)"
        picture = CroppedPicture(pictures / entry["image_path"], box)
        yield Probe(kind, picture, entry["true_caption"], (entry["false_caption"],))


def _negclip(rows: Iterable[dict[str, str]], pictures: Path) -> Iterable[Probe]:
    """A caption with a list of its own words in other places."""
    for row in rows:
        false = tuple(dict.fromkeys(ast.literal_eval(row["neg_caption"])))
        false = tuple(text for text in false if text != row["title"])
        if false:
            picture = coco_picture(pictures, Path(row["filepath"]).name)
            yield Probe("order (NegCLIP)", picture, row["title"], false)


def _foil(content: dict[str, Any], pictures: Path) -> Iterable[Probe]:
    """A caption of COCO, and the same with one noun exchanged: both have the id of the caption."""
    names = {image["id"]: image["file_name"] for image in content["images"]}
    true = {a["id"]: a["caption"] for a in content["annotations"] if not a["foil"]}
    for entry in content["annotations"]:
        if entry["foil"] and entry["id"] in true:
            picture = coco_picture(pictures, names[entry["image_id"]])
            yield Probe("object (FOIL)", picture, true[entry["id"]], (entry["caption"],))


def _pairs(entries: Iterable[dict[str, Any]], pictures: Path) -> Iterable[Probe]:
    """Winoground: two pictures and two captions of the same words."""
    for entry in entries:
        kind = f"{entry.get('collapsed_tag') or entry.get('tag') or 'order'} (Winoground)".lower()
        for own, other in ((0, 1), (1, 0)):
            name = entry[f"image_{own}"]
            picture = pictures / (name if Path(name).suffix else f"{name}.png")
            yield Probe(
                kind,
                picture,
                entry[f"caption_{own}"],
                (entry[f"caption_{other}"],),
                str(entry["id"]),
            )
