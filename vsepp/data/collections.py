"""Recognises the layout of a collection and opens it."""

from pathlib import Path

from vsepp.data import folder, karpathy, shapes, shards
from vsepp.data.captioned import CaptionedImages
from vsepp.errors import WrongRequest

LAYOUTS = """\
  a folder with captions.csv, .tsv or .jsonl and its pictures   image,caption,split
  tar shards, KEY.jpg beside KEY.json                           {"captions": ["..."], "split": "train"}
  Karpathy's JSON with its pictures                             dataset_flickr30k.json, images/*.jpg
  the built-in world                                            shapes:4000"""


def open_data(where: str | Path) -> CaptionedImages:
    """Open a path, or the built-in world `shapes:N`, as pictures with captions."""
    if str(where).startswith("shapes:"):
        return shapes.open_world(str(where))
    path = Path(where).expanduser()
    if not path.exists():
        raise WrongRequest(f"There is nothing at {path}. Layouts that can be opened:\n{LAYOUTS}")
    if folder.recognises(path):
        return folder.open_collection(path)
    if karpathy.recognises(path):
        return karpathy.open_collection(path)
    if shards.recognises(path):
        return shards.open_collection(path)
    raise WrongRequest(f"{path} is in none of the layouts that can be opened:\n{LAYOUTS}")
