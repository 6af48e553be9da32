"""Recognises the layout of a collection and opens it."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from vsepp.data import coco, features, folder, karpathy, shapes, shards
from vsepp.data.captioned import CaptionedImages
from vsepp.data.troubles import OnError, Troubles
from vsepp.errors import WrongRequest

LAYOUTS = """\
  a folder with captions.csv, .tsv or .jsonl and its pictures   image,caption,split
  tar shards, KEY.jpg beside KEY.json                           {"captions": ["..."], "split": "train"}
  Karpathy's JSON with its pictures                             dataset_flickr30k.json, images/*.jpg
  the COCO 2014 tree                                            annotations/captions_train2014.json, images/train2014/*.jpg
  precomputed features                                          train_ims.npy, train_caps.txt
  the built-in world                                            shapes:4000"""


NAMES = {"coco": ("coco",), "f30k": ("f30k", "flickr30k"), "f8k": ("f8k", "flickr8k")}


class Reader(Protocol):
    """What the file of a layout offers."""

    def recognises(self, path: Path) -> bool: ...

    def open_collection(self, path: Path, troubles: Troubles) -> CaptionedImages: ...


# The first that recognises a path opens it; a COCO tree may hold Karpathy's JSON, too.
READERS: tuple[Reader, ...] = (folder, coco, karpathy, features, shards)


def _collection_named(path: Path, data: CaptionedImages) -> str:
    """Which of the field's collections it says that it is: by the name of its folder or table."""
    sources = data.name, str((data.origin or {}).get("data", ""))  # or of what its features are of
    tables = [Path(source.partition(" (")[0]).name for source in sources]
    names = " ".join([path.resolve().name, *tables]).lower()
    found = [key for key, names_of in NAMES.items() if any(name in names for name in names_of)]
    return found[0] if len(found) == 1 else ""


def open_data(where: str | Path, on_error: OnError = "stop") -> CaptionedImages:
    """Open a path, or the built-in world `shapes:N`, as pictures with captions.

    A row, caption or picture that cannot be used is an error that names it; with `on_error="skip"`
    it is left out, and the collection's `left_out` says why.
    """
    if str(where).startswith("shapes:"):
        return shapes.open_world(str(where))
    if "://" in str(where):
        raise WrongRequest(
            f"{where} is a URL, and collections to learn from or to measure on are read from a disk: "
            "copy it into a folder first. (vsepp index and vsepp search take URLs.)"
        )
    path = Path(where).expanduser()
    if not path.exists():
        raise WrongRequest(f"There is nothing at {path}. Layouts that can be opened:\n{LAYOUTS}")
    for reader in READERS:
        if reader.recognises(path):
            data = reader.open_collection(path, Troubles(on_error))
            return replace(data, collection=data.collection or _collection_named(path, data))
    raise WrongRequest(f"{path} is in none of the layouts that can be opened:\n{LAYOUTS}")
