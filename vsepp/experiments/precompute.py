"""What a frozen net makes of a collection, computed once and written in the release's layout."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

from vsepp.data.captioned import CaptionedImage, CaptionedImages, is_plain_name
from vsepp.data.features import ORIGIN
from vsepp.data.pictures import View
from vsepp.data.troubles import shortened
from vsepp.devices import best_device, pictures_at_once, prepare
from vsepp.encoders.backbones import backbone, fingerprint
from vsepp.encoders.halves import cut_before
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
    before: str = ""  # keep what goes into this module, such as stages.3, for model.finetune_from


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
    part = cut_before(net.net, keys.before, keys.size)[0] if keys.before else net
    origin = _origin(data, name, part, view)
    _begin(into, origin | ({"before": keys.before} if keys.before else {}))

    def made_of(images: Tensor) -> Tensor:
        images = images.to(device)
        made: Tensor = part(net.scaled(images)).half() if keys.before else net(images).float()
        return made.cpu()

    for split in data.splits:
        _write_split(data.split(split), ON_DISK.get(split, split), made_of, view, into)
    return {split: pictures for split, (pictures, _) in data.splits.items()}


def _check_names(data: CaptionedImages) -> None:
    """Splits become names of files: one that is a path would be written elsewhere."""
    for split in data.splits:
        if not is_plain_name(split):
            raise WrongRequest(
                f"{data.name} has a split {shortened(split)!r}, which cannot be a file's name. Name "
                "its splits with letters and digits, such as train, val and test."
            )


def _origin(data: CaptionedImages, name: str, net: nn.Module, view: View) -> dict[str, Any]:
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
    items: list[CaptionedImage],
    stem: str,
    made_of: Callable[[Tensor], Tensor],
    view: View,
    into: Path,
) -> None:
    file = into / f"{stem}_ims.npy"
    if file.is_file():
        return
    captions = [(item.key, caption) for item in items for caption in item.captions]
    _write_lines(into / f"{stem}_caps.txt", [caption for _, caption in captions])
    # differs from the release: a line for each caption, so that pictures may have any number
    _write_lines(into / f"{stem}_ids.txt", [key for key, _ in captions])
    draft = into / f".{stem}.draft"
    rows: np.memmap | None = None
    console = Console(stderr=True)
    bars = Progress(console=console, transient=True, disable=not console.is_terminal)
    with torch.inference_mode(), bars as progress:
        bar = progress.add_task(stem, total=len(items))
        done = 0
        for images in DecodedPictures(items, view, memory=0).batches(
            pictures_at_once(best_device())
        ):
            made = made_of(images).numpy()
            if rows is None:
                shape = len(items), *made.shape[1:]
                rows = np.lib.format.open_memmap(draft, mode="w+", dtype=made.dtype, shape=shape)
            rows[done : done + len(images)] = made
            done += len(images)
            progress.update(bar, completed=done)
    assert rows is not None  # a split has pictures
    rows.flush()
    draft.replace(file)


def _write_lines(file: Path, lines: list[str]) -> None:
    """One text a line: line breaks inside become spaces."""
    text = "".join(" ".join(line.split()) + "\n" for line in lines)
    file.write_text(text, encoding="utf-8", newline="\n")
