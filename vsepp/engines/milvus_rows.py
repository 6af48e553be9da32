"""Photos as rows of a Milvus collection, and filters as its expressions.

Milvus keeps text and numbers. Bytes are written in hexadecimal, and so is what a path may hold and its
expressions may not: control characters, and what is no valid UTF-8.
"""

import json
import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pymilvus import CollectionSchema, DataType, MilvusClient

from vsepp.search.remembered import Embedded, Known, Photo
from vsepp.search.similarity import Vectors
from vsepp.search.where import Metadata, Where, folded

LONGEST_KEY, LONGEST_PATH = 512, 16_384  # bytes
MOST_RUNS = 4_096  # of folder names: those of 90 folders, one in another
KNOWN = ["path", "size", "modified", "content"]
PHOTO = [*KNOWN, "taken", "width", "height"]
MARK = "\uffff"  # no character, and so in hardly any path
FOREIGN = re.compile(f"[\0-\x1f\x7f\udc80-\udcff{MARK}]")
ESCAPED = re.compile(f"{MARK}({MARK}|..)")
NOTHING = {"size": 0, "modified": 0, "width": 0, "height": 0, "content": "", "look": ""}


def photo_schema(dim: int) -> CollectionSchema:
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=LONGEST_KEY)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
    schema.add_field("path", DataType.VARCHAR, max_length=LONGEST_PATH)
    schema.add_field("taken", DataType.INT64)  # seconds since 1970, as the clock on the wall showed
    # Every run of folder names, in lower case: /2019/Beach/ is 2019, beach and 2019/beach.
    schema.add_field(
        "folders",
        DataType.ARRAY,
        element_type=DataType.VARCHAR,
        max_capacity=MOST_RUNS,
        max_length=LONGEST_PATH,
    )
    for name in ("size", "modified", "width", "height"):
        schema.add_field(name, DataType.INT64)
    schema.add_field("content", DataType.VARCHAR, max_length=64)
    schema.add_field("look", DataType.VARCHAR, max_length=1024)
    return schema


def row_of(key: str, vector: Vectors, metadata: Metadata) -> dict[str, Any]:
    return {
        "key": escaped(key),
        "vector": vector,
        "path": escaped(metadata.path),
        "taken": _seconds(metadata.taken),
        "folders": runs_of_folders(metadata.path),
        **NOTHING,
    }


def row_of_photo(key: str, photo: Photo, embedded: Embedded) -> dict[str, Any]:
    return {
        **row_of(key, embedded.vector, Metadata(str(photo.path), photo.taken)),
        "size": photo.size,
        "modified": photo.modified,
        "width": photo.width,
        "height": photo.height,
        "content": photo.content.hex(),
        "look": embedded.look.hex(),
    }


def photo_of(row: Mapping[str, Any]) -> Photo:
    return Photo(
        Path(unescaped(row["path"])),
        row["size"],
        row["modified"],
        str(np.datetime64(row["taken"], "s")),
        row["width"],
        row["height"],
        bytes.fromhex(row["content"]),
    )


def known_of(row: Mapping[str, Any]) -> Known:
    return Known(row["size"], row["modified"], bytes.fromhex(row["content"]))


def runs_of_folders(path: str) -> list[str]:
    """What `in:` may ask for; short runs first, should there be too many."""
    folder = folded(path.replace(os.sep, "/").rpartition("/")[0])
    names = [name for name in escaped(folder).split("/") if name]
    runs = dict.fromkeys(
        "/".join(names[start : start + length])
        for length in range(1, len(names) + 1)
        for start in range(len(names) - length + 1)
    )
    return list(runs)[:MOST_RUNS]


def expression(where: Where | None) -> str:
    """A filter as Milvus understands it; empty for none."""
    if not where:
        return ""
    parts = [_in_folder(name) for name in where.inside]
    parts += [f"not {_in_folder(name)}" for name in where.outside]
    if where.after is not None:
        parts.append(f"taken >= {_seconds(where.after)}")
    if where.before is not None:
        parts.append(f"taken < {_seconds(where.before)}")
    return " and ".join(parts)


def below(place: str) -> str:
    """The paths in a folder and in its folders, or a single one: a range of the order of bytes."""
    folder = escaped(place.rstrip("/"))
    after = chr(ord("/") + 1)
    return (
        f"(path > {quoted(folder + '/')} and path < {quoted(folder + after)}) or "
        f"path == {quoted(escaped(place))}"
    )


def among(keys: list[str]) -> str:
    return f"key in [{', '.join(quoted(escaped(key)) for key in keys)}]"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def escaped(text: str) -> str:
    """MARK and two digits: of a control character, or of a byte that Python reads as U+DC80 to U+DCFF."""
    return FOREIGN.sub(lambda m: MARK + (MARK if m[0] == MARK else f"{ord(m[0]) & 255:02x}"), text)


def unescaped(text: str) -> str:
    return ESCAPED.sub(lambda m: MARK if m[1] == MARK else _foreign(int(m[1], 16)), text)


def _foreign(code: int) -> str:
    return chr(code if code < 0x80 else 0xDC00 + code)


def _in_folder(name: str) -> str:
    run = folded(name)
    # Before, a Mac's names were kept as they were written: é as two characters.
    forms = dict.fromkeys((run, unicodedata.normalize("NFD", run)))
    parts = [f"array_contains(folders, {quoted(escaped(form))})" for form in forms]
    return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"


def _seconds(time: str) -> int:
    return int(np.datetime64(time, "s").astype(np.int64))
