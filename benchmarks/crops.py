"""What do random crops cost that are cut from original photos instead of resized ones?

    python benchmarks/crops.py            two minutes on two cores

400 rendered photos of 640 x 480, one random-resized crop of 224 x 224 of each: cut from the photo resized to a short
side of 256 (`data.crop_from = "resized"`), from the original (`"original"`, the release's), each with photos that
are decoded anew and with photos that are kept in memory; and the obvious way, torchvision's transform on one photo
after another. All take turns.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from records import write_record
from rendered_photos import write_photos
from timing import seconds, summary
from torchvision import transforms

from vsepp.data.captioned import CaptionedImage
from vsepp.data.pictures import CropFrom, View, draws
from vsepp.loading.images import PicturesInMemory

PHOTOS, ROUNDS, MEMORY = 400, 7, 2**30


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "photos"
        write_photos([folder], PHOTOS)
        files = sorted(folder.iterdir())
        ways: dict[str, Callable[[], object]] = {
            "resized_decoded": crops_of(files, "resized", 0),
            "original_decoded": crops_of(files, "original", 0),
            "resized_kept": crops_of(files, "resized", MEMORY),
            "original_kept": crops_of(files, "original", MEMORY),
            "obvious": lambda: torchvisions(files),
        }
        measured = {"photos": PHOTOS, "size": [640, 480], **compared(ways)}
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("torchvision", "pillow"))


def crops_of(files: list[Path], crop_from: CropFrom, memory: int) -> Callable[[], object]:
    items = [CaptionedImage(file.stem, file, ("a photo",), "train") for file in files]
    pictures = PicturesInMemory(items, View(crop_from=crop_from), memory)
    drawn = draws("random_resized", len(files), (0,))
    return lambda: pictures.take(np.arange(len(files)), "random_resized", drawn)


def torchvisions(files: list[Path]) -> None:
    cut = transforms.RandomResizedCrop(224)
    for file in files:
        np.asarray(cut(Image.open(file).convert("RGB")))


def compared(ways: dict[str, Callable[[], object]]) -> dict[str, Any]:
    for way in ways.values():
        way()  # a warm-up; and what is kept, is kept from now on
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            times[name].append(seconds(way))
    return {
        f"{name}_per_second": summary([PHOTOS / value for value in values], digits=1)
        for name, values in times.items()
    }


if __name__ == "__main__":
    main()
