"""Little collections in the real form of every layout, with pictures of the built-in world."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np

from vsepp.data.captioned import CaptionedImage
from vsepp.data.collections import open_data

SIZE = 64


def some_items(each: int = 24) -> list[CaptionedImage]:
    """Pictures for training, validation and test: `each` for the first, half of it for the others."""
    world = open_data("shapes:200")
    counts = {"train": each, "val": each // 2, "test": each // 2}
    return [item for split, count in counts.items() for item in world.split(split)[:count]]


def file_name(item: CaptionedImage) -> str:
    return item.key.replace("/", "-") + ".jpg"


def save_picture(item: CaptionedImage, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    item.path.open(SIZE).save(path, quality=95)


def write_folder(root: Path, items: list[CaptionedImage]) -> Path:
    lines = ["image,caption,split"]
    for item in items:
        save_picture(item, root / file_name(item))
        lines += [f'{file_name(item)},"{text}",{item.split}' for text in item.captions]
    (root / "captions.csv").write_text("\n".join(lines) + "\n")
    return root


def write_shards(root: Path, items: list[CaptionedImage]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(root / "scenes-000.tar", "w") as tar:
        for item in items:
            picture = io.BytesIO()
            item.path.open(SIZE).save(picture, "JPEG", quality=95)
            key = file_name(item).removesuffix(".jpg")
            label = json.dumps({"captions": item.captions, "split": item.split})
            add(tar, f"{key}.jpg", picture.getvalue())
            add(tar, f"{key}.json", label.encode())
    return root


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def write_karpathy(root: Path, items: list[CaptionedImage]) -> Path:
    for item in items:
        save_picture(item, root / "images" / file_name(item))
    entries = [karpathy_entry(item, number) for number, item in enumerate(items)]
    table = root / "dataset_flickr8k.json"
    table.write_text(json.dumps({"images": entries, "dataset": "flickr8k"}))
    return root


def karpathy_entry(item: CaptionedImage, number: int, **more: object) -> dict[str, object]:
    sentences = [
        {"raw": text, "tokens": text.split(), "imgid": number, "sentid": 10 * number + place}
        for place, text in enumerate(item.captions)
    ]
    ids = [sentence["sentid"] for sentence in sentences]
    return {
        "filename": file_name(item),
        "split": item.split,
        "imgid": number,
        "sentids": ids,
        "sentences": sentences,
        **more,
    }


def write_coco(root: Path, items: list[CaptionedImage], arrays: bool = True) -> Path:
    """Every fourth training picture is restval, and lies, with val and test, in val2014."""
    splits = {
        item.key: "restval" if item.split == "train" and n % 4 == 3 else item.split
        for n, item in enumerate(items)
    }
    tables: dict[str, dict[str, list]] = {
        year: {"images": [], "annotations": []} for year in ("train2014", "val2014")
    }
    ids: dict[str, list[int]] = {"train": [], "restval": [], "dev": [], "test": []}
    entries = []
    for number, item in enumerate(items):
        split = splits[item.key]
        year = "train2014" if split == "train" else "val2014"
        save_picture(item, root / "images" / year / file_name(item))
        tables[year]["images"].append({"id": number, "file_name": file_name(item)})
        texts = (*item.captions, "a sixth caption")  # some of COCO's have six or seven
        tables[year]["annotations"] += [
            {"id": 10 * number + place, "image_id": number, "caption": text}
            for place, text in enumerate(texts)
        ]
        ids["dev" if split == "val" else split] += [10 * number + place for place in range(5)]
        entry = karpathy_entry(item, number, filepath=year, cocoid=number)
        entries.append(entry | {"split": split})
    annotations = root / "annotations"
    annotations.mkdir(parents=True)
    for year, table in tables.items():
        table["annotations"].reverse()  # COCO's are in no order
        (annotations / f"captions_{year}.json").write_text(json.dumps(table))
    if arrays:
        for split, numbers in ids.items():
            np.save(annotations / f"coco_{split}_ids.npy", np.array(numbers))
    else:
        (root / "dataset_coco.json").write_text(json.dumps({"images": entries, "dataset": "coco"}))
    return root


def write_features(root: Path, items: list[CaptionedImage], repeats: int = 1) -> Path:
    """A picture's feature is itself, small; with `repeats` there is a row for each caption."""
    root.mkdir(parents=True, exist_ok=True)
    for split, stem in {"train": "train", "val": "dev", "test": "test"}.items():
        chosen = [item for item in items if item.split == split]
        rows = np.stack(
            [np.asarray(item.path.open(SIZE).resize((6, 6))).ravel() for item in chosen]
        )
        np.save(root / f"{stem}_ims.npy", np.repeat(rows.astype(np.float32), repeats, axis=0))
        text = "".join(f"{caption}\n" for item in chosen for caption in item.captions)
        (root / f"{stem}_caps.txt").write_text(text)
    return root
