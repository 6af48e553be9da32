"""The collection that the model in the box learns from: COCO and Flickr8k, without near-duplicates of held-out photos.

    python results/world.py COCO_SHARDS COCO FLICKR8K INTO [CAPTIONS [VIEWS]]

COCO_SHARDS has the training photos as tar shards, COCO and FLICKR8K those of val and test (and Flickr8k's of train). INTO
gets shards with the training and validation photos of both, so that `vsepp train ... --data INTO` learns from all of them and
is validated on all. No test photo goes there. With CAPTIONS, only training photos with so many captions or more. With VIEWS
of 2 or more, each training photo is there as it is and as further views with the same captions, so that stored maps have
some of what random crops have: a part of 60 to 100 % of the area, every other view mirrored.

A training photo is left out if it looks like a photo of either val or test, as it is or mirrored; a validation photo, if it
looks like one of test. Two photos look alike if the 8 x 8 mean colours of both, squeezed into a square and at equal
brightness, differ by at most 24 of 255 in each cell and colour: the rule by which `vsepp search` folds copies
(benchmarks/LOG.md). results/world-data.json has the counts.
"""

import io
import json
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

SIDE, GREY, NEARLY = 8, 128, 24
BATCH = 1024
LEAST_AREA, QUALITY = 0.6, 95  # of a further view
RECORD = Path(__file__).with_name("world-data.json")


@dataclass(frozen=True)
class Photo:
    source: str  # coco or flickr8k
    split: str
    shard: Path
    key: str
    look: np.ndarray  # (8, 8, 3)
    captions: int


def photos(source: str, shards: list[Path]) -> Iterator[Photo]:
    for shard in shards:
        split = next(name for name in ("train", "val", "test") if f"-{name}-" in shard.name)
        with tarfile.open(shard) as tar:
            for member in tar:
                if member.name.endswith(".jpg"):
                    key = member.name.removesuffix(".jpg")
                    colours = look(tar.extractfile(member).read())
                    captions = json.load(tar.extractfile(f"{key}.json"))["captions"]
                    yield Photo(source, split, shard, key, colours, len(captions))


def look(content: bytes) -> np.ndarray:
    picture = Image.open(io.BytesIO(content))
    picture.draft("RGB", (64, 64))
    small = (
        ImageOps.exif_transpose(picture).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)
    )
    colours = np.asarray(small, dtype=np.float32)
    return colours * (GREY / max(1.0, float(colours.mean())))


def looks_like_any(some: list[Photo], others: list[Photo]) -> np.ndarray:
    """For each of some photos, whether one of the others looks like it, or like its mirror image."""
    theirs = np.stack([photo.look for photo in others])
    theirs = np.concatenate([theirs, theirs[:, :, ::-1]]).reshape(2 * len(others), -1)
    found = np.zeros(len(some), dtype=bool)
    squares = np.square(theirs).sum(1)
    most = theirs.shape[1] * NEARLY**2  # of a squared distance, where no number differs by more
    for start in range(0, len(some), BATCH):
        ours = np.stack([photo.look.ravel() for photo in some[start : start + BATCH]])
        distances = np.square(ours).sum(1)[:, None] + squares - 2 * ours @ theirs.T
        for mine, other in np.argwhere(distances <= most + 1):
            if np.abs(ours[mine] - theirs[other]).max() <= NEARLY:
                found[start + mine] = True
    return found


def write(kept: list[Photo], into: Path) -> None:
    """The shards again, without what was left out."""
    keys: dict[Path, set[str]] = {}
    for photo in kept:
        keys.setdefault(photo.shard, set()).add(photo.key)
    for shard, wanted in keys.items():
        with tarfile.open(shard) as tar, tarfile.open(into / shard.name, "w") as copy:
            for member in tar:
                if member.name.rpartition(".")[0] in wanted:
                    copy.addfile(member, tar.extractfile(member))


def write_views(kept: list[Photo], into: Path, view: int) -> None:
    """Shards with one further view of each training photo, under keys of its own."""
    keys: dict[Path, set[str]] = {}
    for photo in kept:
        if photo.split == "train":
            keys.setdefault(photo.shard, set()).add(photo.key)
    for shard, wanted in keys.items():
        name = f"{shard.stem}-view{view}{shard.suffix}"
        with tarfile.open(shard) as tar, tarfile.open(into / name, "w") as copy:
            for key in sorted(wanted):
                pixels = further_view(tar.extractfile(f"{key}.jpg").read(), key, view)
                for suffix, content in (
                    ("jpg", pixels),
                    ("json", tar.extractfile(f"{key}.json").read()),
                ):
                    member = tarfile.TarInfo(f"{key}-view{view}.{suffix}")
                    member.size = len(content)
                    copy.addfile(member, io.BytesIO(content))


def further_view(content: bytes, key: str, view: int) -> bytes:
    """A part of the photo; views 2, 4, ... are mirrored. The same one in every call."""
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
    generator = np.random.default_rng([zlib.crc32(key.encode()), view])
    side = np.sqrt(generator.uniform(LEAST_AREA, 1))
    width, height = round(side * picture.width), round(side * picture.height)
    left = int(generator.integers(picture.width - width + 1))
    top = int(generator.integers(picture.height - height + 1))
    part = picture.crop((left, top, left + width, top + height))
    file = io.BytesIO()
    (part if view % 2 else ImageOps.mirror(part)).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def main() -> None:
    if len(sys.argv) not in (5, 6, 7):
        sys.exit(__doc__)
    coco_train, coco, flickr8k, into = map(Path, sys.argv[1:5])
    least, views = (int(number) for number in (*sys.argv[5:], *"11"[len(sys.argv) - 5 :]))
    into.mkdir(parents=True, exist_ok=True)
    shards = {
        "coco": [*coco_train.glob("*.tar"), *coco.glob("*.tar")],
        "flickr8k": flickr8k.glob("*.tar"),
    }
    found = [photo for name, files in shards.items() for photo in photos(name, sorted(files))]
    parts = {split: [p for p in found if p.split == split] for split in ("train", "val", "test")}
    left_out = {
        "train": looks_like_any(parts["train"], parts["val"] + parts["test"]),
        "val": looks_like_any(parts["val"], parts["test"]),
    }
    kept, counts = [], {}
    for split, is_out in left_out.items():
        for photo, out in zip(parts[split], is_out, strict=True):
            if not out and (split == "val" or photo.captions >= least):
                kept.append(photo)
        for source in shards:
            of_source = [
                out for p, out in zip(parts[split], is_out, strict=True) if p.source == source
            ]
            counts[f"{source} {split}"] = {
                "photos": len(of_source),
                "left_out": int(sum(of_source)),
            }
    write(kept, into)
    for view in range(2, views + 1):
        write_views(kept, into, view)
    counts |= {
        f"{k} test": {"photos": n} for k, n in Counter(p.source for p in parts["test"]).items()
    }
    RECORD.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(counts, indent=2))


if __name__ == "__main__":
    main()
