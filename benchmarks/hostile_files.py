"""Hostile files by kind, and the commands that must survive them."""

import json
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hostile_pictures import (
    Words,
    pictures,
    read_pictures,
    read_shards,
    write_parquet_shard,
    write_picture,
    write_tar,
)
from mutations import ODD, changed, changed_document, changed_text

import vsepp
from tests.models import SCENES
from vsepp.data.collections import open_data


@dataclass(frozen=True)
class Kind:
    """`write` puts one hostile input into a folder; `commands` reads all that are there."""

    write: Callable[[random.Random, Path, int], None]
    commands: Callable[[Path], Words]
    together: int = 1  # inputs that one command reads


def kinds() -> dict[str, Kind]:
    suffixes = sorted({suffix for suffix, _ in pictures()})
    return {
        **{suffix: Kind(write_picture(suffix), read_pictures, 40) for suffix in suffixes},
        "tar": Kind(write_tar, read_shards, 20),
        "parquet": Kind(write_parquet_shard, read_shards, 20),
        **{name: Kind(_write_captions(name), _read_captions) for name in CAPTIONS},
        **{f"snapshot {name}": Kind(_write_snapshot(name), _read_snapshot) for name in SNAPSHOT},
        "collection": Kind(_write_collection, _read_collection),
    }


# ---- captions -------------------------------------------------------------------------------

ROWS = [
    ("a.png", "a red circle", "train"),
    ("b.png", "two blue squares", "val"),
    ("a.png", "red", "train"),
]
CAPTIONS = {
    "captions.csv": "image,caption,split\n" + "\n".join(",".join(row) for row in ROWS) + "\n",
    "captions.tsv": "image\tcaption\tsplit\n" + "\n".join("\t".join(row) for row in ROWS) + "\n",
    "captions.jsonl": "".join(
        json.dumps({"image": i, "caption": c, "split": s}) + "\n" for i, c, s in ROWS
    ),
    "dataset_x.json": json.dumps(
        {
            "dataset": "x",
            "images": [
                {"filename": image, "imgid": n, "split": split, "sentences": [{"raw": caption}]}
                for n, (image, caption, split) in enumerate(ROWS[:2])
            ],
        }
    ),
}


def _write_captions(name: str) -> Callable[[random.Random, Path, int], None]:
    def write(chance: random.Random, folder: Path, number: int) -> None:
        del number
        for picture in ("a.png", "b.png", "images/a.png"):
            (folder / picture).parent.mkdir(exist_ok=True)
            (folder / picture).write_bytes(next(one for kind, one in pictures() if kind == "png"))
        text = CAPTIONS[name]
        if name.endswith("json") and chance.random() < 0.6:
            text = json.dumps(changed_document(chance, json.loads(text)))
            (folder / name).write_text(text, errors="replace")
        else:
            (folder / name).write_bytes(changed_text(chance, text))

    return write


def _read_captions(folder: Path) -> Words:
    return [["data", f"{folder}"], ["data", f"{folder}", "--json"]]


# ---- snapshots ------------------------------------------------------------------------------

SNAPSHOT = ("config.json", "tokenizer.json", "model.safetensors", "image.onnx", "caption.onnx")


def _write_snapshot(name: str) -> Callable[[random.Random, Path, int], None]:
    def write(chance: random.Random, folder: Path, number: int) -> None:
        del number
        shutil.copytree(SCENES, folder, dirs_exist_ok=True)
        content = (SCENES / name).read_bytes()
        if name.endswith("json") and chance.random() < 0.7:
            document = changed_document(chance, json.loads(content))
            (folder / name).write_text(json.dumps(document), errors="replace")
        elif name.endswith("safetensors") and chance.random() < 0.7:
            (folder / name).write_bytes(_other_header(chance, content))
        elif name.endswith("onnx") and chance.random() < 0.3:
            (folder / name).write_bytes(_other_weights(chance, content))
        else:
            (folder / name).write_bytes(changed(chance, content))

    return write


def _other_header(chance: random.Random, content: bytes) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    header = json.dumps(changed_document(chance, json.loads(content[8 : 8 + length]))).encode()
    claimed = chance.choice((len(header), len(header), len(header), 0, 2**63, 10**9))
    return struct.pack("<Q", claimed) + header + content[8 + length :]


def _other_weights(chance: random.Random, content: bytes) -> bytes:
    """External data elsewhere, or at impossible offsets."""
    import onnx

    model = onnx.load_from_string(content)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if chance.random() < 0.3:
                entry.value = chance.choice(
                    (
                        "../../../etc/passwd",
                        "/etc/passwd",
                        "-1",
                        "0",
                        str(2**62),
                        "",
                        "config.json",
                        "x\x00",
                    )
                )
    return bytes(model.SerializeToString())


def _read_snapshot(folder: Path) -> Words:
    texts = folder.parent / "texts.txt"
    texts.write_text("a red circle\ntwo squares\n")
    picture = folder.parent / "picture"
    picture.mkdir(exist_ok=True)
    (picture / "a.png").write_bytes(next(one for kind, one in pictures() if kind == "png"))
    into = str(folder.parent / "made.npy")
    return [
        ["embed", f"{folder}", "--captions", f"{texts}", "--into", into],
        ["embed", f"{folder}", "--images", f"{picture}", "--into", into],
        ["evaluate", f"{folder}", "--data", "shapes:32"],
    ]


# ---- collections ----------------------------------------------------------------------------


@cache
def good_collection(folder: Path) -> bytes:
    """Thirty photos, as bytes of one file."""
    photos = folder / "photos"
    photos.mkdir(exist_ok=True)
    for number, item in enumerate(open_data("shapes:32").items[:30]):
        item.path.open(64).save(photos / f"{number}.png")
    with vsepp.Collection.create(folder / "good.vse", vsepp.load(SCENES)) as collection:
        collection.add(photos)
    with closing(sqlite3.connect(folder / "good.vse")) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return (folder / "good.vse").read_bytes()


def _write_collection(chance: random.Random, folder: Path, number: int) -> None:
    del number
    content = good_collection(folder.parent)
    file = folder / "photos.vse"
    if chance.random() < 0.5:
        file.write_bytes(changed(chance, content))
        return
    file.write_bytes(content)
    with closing(sqlite3.connect(file)) as connection, suppress(sqlite3.Error):
        for _ in range(chance.randint(1, 3)):
            _change_table(chance, connection)
            connection.commit()


def _change_table(chance: random.Random, connection: sqlite3.Connection) -> None:
    tables = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    table = chance.choice(tables)
    column = chance.choice([row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')])
    plain = [one for one in ODD if isinstance(one, (int, float, str, bytes)) or one is None]
    plain = [one for one in plain if not isinstance(one, int) or abs(one) < 2**63]
    value = chance.choice([*plain, chance.randbytes(7), chance.randbytes(256)])
    if isinstance(value, str):  # half of a surrogate pair is no text of SQLite's
        value = value.encode(errors="replace")
        value = value if chance.random() < 0.5 else value.decode()
    match chance.randrange(8):
        case 0:
            connection.execute(f'DELETE FROM "{table}" WHERE random() % 2')
        case 1:
            connection.execute(f'DROP TABLE "{table}"')
        case 2:
            connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"')
        case 3:
            connection.execute(f"PRAGMA user_version = {chance.randrange(-5, 100)}")
        case 4:
            connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (value,))
        case _:
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = ? WHERE rowid % 5 = ?',
                (value, chance.randrange(5)),
            )


def _read_collection(folder: Path) -> Words:
    file, model = str(folder / "photos.vse"), ["--model", f"{SCENES}"]
    return [
        ["search", file, "a red circle", *model],
        ["search", file, "a circle -red in:photos after:2001", "--fold", "--json"],
        ["search", file],
        ["index", f"{folder.parent / 'photos'}", "--into", file, *model],
        ["search", file, "a red circle", *model],
    ]
