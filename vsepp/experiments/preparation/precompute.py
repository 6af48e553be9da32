"""Precomputes features of a frozen backbone, or maps of its first part, in the release's layout."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from vsepp.data.captioned import CaptionedImage, CaptionedImages, is_plain_name, quote
from vsepp.data.collections import Track, no_progress
from vsepp.data.features import ORIGIN
from vsepp.data.pictures import View
from vsepp.devices import (
    autocast,
    best_device,
    computing_in,
    inference_batch_size,
    prepare,
)
from vsepp.encoders.backbones import Backbone, backbone, fingerprint
from vsepp.encoders.halves import cut_before
from vsepp.errors import WrongRequest
from vsepp.experiments.provenance import content_of_items
from vsepp.experiments.recipes.keys import UseKeys
from vsepp.experiments.recipes.start import snapshot_to_start_from
from vsepp.loading.images import PicturesInMemory
from vsepp.snapshots.snapshot import Snapshot

ON_DISK = {"val": "dev"}  # the release's name of the split


@dataclass(frozen=True)
class NetKeys:
    weights: str = (
        "timm"  # none, timm (downloads), a file, a snapshot whose net it is, or "the box"
    )
    size: int = 224
    resize: int = 256
    square: bool = False
    before: str = ""  # store the input of this module, such as stages.3, for model.finetune_from
    precision: Literal["float32", "bf16"] = (
        "float32"  # bf16 is three times as fast where there are instructions for it
    )


@dataclass(frozen=True)
class PrecomputeKeys(UseKeys):
    model: NetKeys = field(default_factory=NetKeys)


def precompute(
    data: CaptionedImages,
    name: str,
    crops: int,
    into: Path,
    keys: NetKeys | None = None,
    track: Track = no_progress,
) -> dict[str, int]:
    """Write SPLIT_ims.npy, _caps.txt and _ids.txt; returns the number of images of each split.

    Splits that exist are kept, so that an interrupted call can be repeated.
    """
    keys = keys or NetKeys()
    _check(data, crops, keys)
    device = best_device()
    prepare(device)
    net = _net(name, keys).to(device).eval()
    view = View(keys.size, keys.resize, keys.square, crops)
    part = cut_before(net.net, keys.before, keys.size)[0] if keys.before else net
    _begin(into, _origin(data, name, part, view, keys))

    def compute(images: Tensor) -> Tensor:
        images = images.to(device)
        with autocast(images, on_cpu=True):
            rows: Tensor = part(net.scaled(images)) if keys.before else net(images)
        return (rows.half() if keys.before else rows.float()).cpu()

    with computing_in(keys.precision):
        for split in data.splits:
            _write_split(data.split(split), ON_DISK.get(split, split), compute, view, into, track)
    return {split: pictures for split, (pictures, _) in data.splits.items()}


def _net(name: str, keys: NetKeys) -> Backbone:
    """The backbone of a snapshot with its own weights, to train that snapshot further; or one by name."""
    folder = snapshot_to_start_from(keys.weights)
    if folder is None:
        return backbone(name, keys.weights, keys.size)
    snapshot = Snapshot.load(folder)
    plan = snapshot.architecture
    asked = {"backbone": name, "size": keys.size, "resize": keys.resize, "square": keys.square}
    differ = [
        f"{key} {getattr(plan, key)}, not {has}"
        for key, has in asked.items()
        if getattr(plan, key) != has
    ]
    if differ:
        raise WrongRequest(f"{folder} has other settings: {'; '.join(differ)}.")
    return snapshot.model.image_encoder.backbone


def _check(data: CaptionedImages, crops: int, keys: NetKeys) -> None:
    """Before anything is written."""
    if crops not in (1, 10):
        raise WrongRequest(f"crops must be 1 (the center) or 10 (the mean of ten), not {crops}.")
    if keys.before and crops == 10:
        raise WrongRequest(
            "Feature maps (model.before) are stored for one crop only: use --crops 1."
        )
    for split in data.splits:
        if not is_plain_name(split):  # a path would be written elsewhere
            raise WrongRequest(
                f"{data.name} has a split {quote(split)!r}, which cannot be a file name. Use letters "
                "and digits, such as train, val and test."
            )


def _origin(
    data: CaptionedImages, name: str, net: nn.Module, view: View, keys: NetKeys
) -> dict[str, Any]:
    origin = {
        "backbone": name,
        "weights": fingerprint(net),
        "size": view.size,
        "resize": view.resize,
        "square": view.square,
        "crops": view.crops,
        "content": content_of_items(data.items),
        "data": data.name,
    }
    others = {key: getattr(keys, key) for key in ("before", "precision")}
    return origin | {key: has for key, has in others.items() if has != getattr(NetKeys, key)}


def _begin(into: Path, origin: dict[str, Any]) -> None:
    """Write features.json first: it tells whether existing features may be kept."""
    into.mkdir(parents=True, exist_ok=True)
    file = into / ORIGIN
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        if before | {"data": ""} != origin | {"data": ""}:  # the same images may be elsewhere
            raise WrongRequest(
                f"{into} holds features of another backbone or of other images ({ORIGIN}). "
                "Use another folder (--into)."
            )
    elif any(into.glob("*_ims.npy")):
        raise WrongRequest(f"{into} holds features of unknown origin. Use another folder (--into).")
    file.write_text(json.dumps(origin, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_split(
    items: list[CaptionedImage],
    stem: str,
    compute: Callable[[Tensor], Tensor],
    view: View,
    into: Path,
    track: Track,
) -> None:
    file = into / f"{stem}_ims.npy"
    if file.is_file():
        return
    captions = [(item.key, caption) for item in items for caption in item.captions]
    caption_ids = [one for item in items for one in item.ids_of_captions]
    _write_lines(into / f"{stem}_caps.txt", [caption for _, caption in captions])
    if len(set(caption_ids)) == len(caption_ids):
        _write_lines(into / f"{stem}_caption_ids.txt", caption_ids)
    # differs from the release: a line for each caption, so that images may have any number
    _write_lines(into / f"{stem}_ids.txt", [key for key, _ in captions])
    draft = into / f".{stem}.draft"
    rows, done = None, 0
    size = inference_batch_size(best_device())
    batches = PicturesInMemory(items, view, memory=0).in_order(size)
    with torch.inference_mode():
        for images in track(batches, stem, -(-len(items) // size)):
            computed = compute(images).numpy()
            if rows is None:  # the first batch tells the shape
                shape = len(items), *computed.shape[1:]
                rows = np.lib.format.open_memmap(
                    draft, mode="w+", dtype=computed.dtype, shape=shape
                )
            rows[done : done + len(images)] = computed
            done += len(images)
    assert rows is not None  # a split has images
    rows.flush()
    draft.replace(file)


def _write_lines(file: Path, lines: list[str]) -> None:
    """One text per line: line breaks inside become spaces."""
    text = "".join(" ".join(line.split()) + "\n" for line in lines)
    file.write_text(text, encoding="utf-8", newline="\n")
