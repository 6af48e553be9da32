"""Captions for photos that have none: those of the training captions that trained models find most fitting.

    python results/pseudo_captions.py WORLD PHOTOS MODEL [MODEL ...]

WORLD has tar shards with captions, as results/world.py writes them; PHOTOS has shards of photos alone
(results/photos_without_captions.py). The models' scores are averaged. Each photo gets the two best captions of WORLD's English training
captions, and is written to WORLD as a training photo. Such captions are rarely wrong and seldom exact: they are meant for distillation
(the key `teachers`), where the models also say how well every other caption of a batch fits.
"""

import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import torch

from vsepp.data.captioned import CaptionedImage
from vsepp.data.collections import open_data
from vsepp.data.webdataset import ShardMember
from vsepp.devices import best_device
from vsepp.evaluation.retrieval import embed_captions, embed_images
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot

CAPTIONS_EACH = 2
ROWS = 1024  # photos that are compared with all captions at once
FURTHER_LANGUAGE = re.compile(r"-[a-z]{2}$")  # in a key, as results/language_shards.py writes it


def photos_in(folder: Path) -> Iterator[CaptionedImage]:
    for shard in sorted(folder.glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                place = ShardMember(shard, member.name, member.offset_data, member.size)
                yield CaptionedImage(Path(member.name).stem, place, ("",), "train")


def fitting(
    models: list[Path], photos: list[CaptionedImage], items: list[CaptionedImage]
) -> list[list[str]]:
    """For each photo the captions of the items that fit best."""
    device, images, captions = best_device(), [], []
    for folder in models:
        snapshot = Snapshot.load(folder)
        model, view = snapshot.model.to(device), snapshot.architecture.view
        images.append(embed_images(model, Pairs(photos, snapshot.vocabulary, view)))
        captions.append(embed_captions(model, Pairs(items, snapshot.vocabulary, view)))
    theirs, texts = torch.cat(captions, 1), [text for item in items for text in item.captions]
    found = []
    for rows in torch.cat(images, 1).split(ROWS):
        best = (rows @ theirs.T).topk(CAPTIONS_EACH).indices.tolist()
        found += [[texts[number] for number in some] for some in best]
    return found


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    world, folder, *models = map(Path, sys.argv[1:])
    train = open_data(str(world)).split("train")
    items = [item for item in train if not FURTHER_LANGUAGE.search(item.key)]
    photos = list(photos_in(folder))
    captions = dict(zip((p.key for p in photos), fitting(models, photos, items), strict=True))
    for shard in sorted(folder.glob("*.tar")):
        with tarfile.open(shard) as tar, tarfile.open(world / shard.name, "w") as copy:
            for member in tar:
                copy.addfile(member, tar.extractfile(member))
                key = Path(member.name).stem
                label = json.dumps({"captions": captions[key], "split": "train"}).encode()
                beside = tarfile.TarInfo(f"{key}.json")
                beside.size = len(label)
                copy.addfile(beside, io.BytesIO(label))
    print(f"{len(photos):,} photos got {CAPTIONS_EACH} captions each, such as:")
    for key in list(captions)[:8]:
        print(f"  {key}: {captions[key]}")


if __name__ == "__main__":
    main()
