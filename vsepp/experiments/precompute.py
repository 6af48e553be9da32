"""What a frozen net makes of a collection, computed once and written in the release's layout."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from vsepp.data.captioned import CaptionedImage, CaptionedImages, is_plain_name
from vsepp.data.features import ORIGIN
from vsepp.data.pictures import View
from vsepp.data.troubles import shortened
from vsepp.devices import best_device, pictures_at_once, prepare
from vsepp.encoders.backbones import Backbone, backbone, fingerprint
from vsepp.errors import WrongRequest
from vsepp.experiments.fingerprint import content_of_items
from vsepp.experiments.opening import UseKeys
from vsepp.loading.decoded import DecodedPictures

ON_DISK = {"val": "dev"}  # what the release calls the split


@dataclass(frozen=True)
class NetKeys:
    weights: str = "timm"  # none, timm (downloads) or a file
    size: int = 224
    resize: int = 256
    square: bool = False


@dataclass(frozen=True)
class PrecomputeKeys(UseKeys):
    model: NetKeys = field(default_factory=NetKeys)


def precompute(
    data: CaptionedImages, name: str, crops: int, into: Path, keys: NetKeys | None = None
) -> dict[str, int]:
    """Write SPLIT_ims.npy, _caps.txt and _ids.txt; returns the number of pictures of each split.

    A split that is there already is kept, so that an interrupted call can be repeated.
    """
    keys = keys or NetKeys()
    if crops not in (1, 10):
        raise WrongRequest(f"--crops takes 1 (the middle) or 10 (the mean of ten), not {crops}.")
    _check_names(data)
    device = best_device()
    prepare(device)
    net = backbone(name, keys.weights, keys.size).to(device).eval()
    view = View(keys.size, keys.resize, keys.square, crops)
    _begin(into, _origin(data, name, net, view))
    for split in data.splits:
        _write_split(data.split(split), ON_DISK.get(split, split), net, view, into)
    return {split: pictures for split, (pictures, _) in data.splits.items()}


def _check_names(data: CaptionedImages) -> None:
    """Splits become names of files: one that is a path would be written elsewhere."""
    for split in data.splits:
        if not is_plain_name(split):
            raise WrongRequest(
                f"{data.name} has a split {shortened(split)!r}, which cannot be a file's name. Name "
                "its splits with letters and digits, such as train, val and test."
            )


def _origin(data: CaptionedImages, name: str, net: Backbone, view: View) -> dict[str, Any]:
    return {
        "backbone": name,
        "weights": fingerprint(net),
        "size": view.size,
        "resize": view.resize,
        "square": view.square,
        "crops": view.crops,
        "content": content_of_items(data.items),
        "data": data.name,
    }


def _begin(into: Path, origin: dict[str, Any]) -> None:
    """features.json first: it says whether what is there may be kept."""
    into.mkdir(parents=True, exist_ok=True)
    file = into / ORIGIN
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        if before | {"data": ""} != origin | {"data": ""}:  # wherever the same pictures lie
            raise WrongRequest(
                f"{into} holds features of another net or of other pictures ({ORIGIN}). "
                "Use another folder (--into)."
            )
    elif any(into.glob("*_ims.npy")):
        raise WrongRequest(f"{into} holds features of unknown origin. Take another folder.")
    file.write_text(json.dumps(origin, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_split(
    items: list[CaptionedImage], stem: str, net: Backbone, view: View, into: Path
) -> None:
    file = into / f"{stem}_ims.npy"
    if file.is_file():
        return
    captions = [(item.key, caption) for item in items for caption in item.captions]
    caption_ids = [one for item in items for one in item.ids_of_captions]
    _write_lines(into / f"{stem}_caps.txt", [caption for _, caption in captions])
    if len(set(caption_ids)) == len(caption_ids):
        _write_lines(into / f"{stem}_caption_ids.txt", caption_ids)
    # differs from the release: a line for each caption, so that pictures may have any number
    _write_lines(into / f"{stem}_ids.txt", [key for key, _ in captions])
    draft = into / f".{stem}.draft"
    rows = np.lib.format.open_memmap(
        draft, mode="w+", dtype=np.float32, shape=(len(items), net.num_features)
    )
    console = Console(stderr=True)
    bars = Progress(console=console, transient=True, disable=not console.is_terminal)
    with torch.inference_mode(), bars as progress:
        bar = progress.add_task(stem, total=len(items))
        done = 0
        device = net.mean.device
        for images in DecodedPictures(items, view, memory=0).batches(pictures_at_once(device)):
            rows[done : done + len(images)] = net(images.to(device)).float().cpu().numpy()
            done += len(images)
            progress.update(bar, completed=done)
    rows.flush()
    draft.replace(file)


def _write_lines(file: Path, lines: list[str]) -> None:
    """One text a line: line breaks inside become spaces."""
    text = "".join(" ".join(line.split()) + "\n" for line in lines)
    file.write_text(text, encoding="utf-8", newline="\n")
