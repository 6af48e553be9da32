"""Photos as rows of a Milvus collection, and filters as its expressions.

Milvus stores text and numbers. Bytes are written in hexadecimal, and so are characters that a path may
contain but an expression may not: control characters, and what is not valid UTF-8.
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

from vsepp.search.index.numpy_similarity import Vectors
from vsepp.search.index.protocol import Metadata
from vsepp.search.query.language import Where, normalize_folder
from vsepp.search.stores.store import Embedding, KnownFile, Photo

MAX_KEY_BYTES, MAX_PATH_BYTES = 512, 16_384
MAX_SUBPATHS = 4_096  # those of 90 nested folders
KNOWN_FIELDS = ["path", "size", "modified", "content"]
PHOTO_FIELDS = [*KNOWN_FIELDS, "taken", "width", "height"]
ESCAPE = "\uffff"  # not a character, so hardly any path contains it
UNSAFE = re.compile(f"[\0-\x1f\x7f\udc80-\udcff{ESCAPE}]")
ESCAPE_SEQUENCE = re.compile(f"{ESCAPE}({ESCAPE}|..)")
NO_PHOTO = {"size": 0, "modified": 0, "width": 0, "height": 0, "content": "", "look": ""}


def photo_schema(dim: int) -> CollectionSchema:
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=MAX_KEY_BYTES)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
    schema.add_field("path", DataType.VARCHAR, max_length=MAX_PATH_BYTES)
    schema.add_field("taken", DataType.INT64)  # seconds since 1970, in local time
    # Every subpath, normalised: /2019/Beach/ has 2019, beach and 2019/beach.
    schema.add_field(
        "folders",
        DataType.ARRAY,
        element_type=DataType.VARCHAR,
        max_capacity=MAX_SUBPATHS,
        max_length=MAX_PATH_BYTES,
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
        "folders": folder_subpaths(metadata.path),
        **NO_PHOTO,
    }


def row_of_photo(key: str, photo: Photo, embedding: Embedding) -> dict[str, Any]:
    return {
        **row_of(key, embedding.vector, Metadata(str(photo.path), photo.taken)),
        "size": photo.size,
        "modified": photo.modified,
        "width": photo.width,
        "height": photo.height,
        "content": photo.content.hex(),
        "look": embedding.signature.hex(),
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


def known_of(row: Mapping[str, Any]) -> KnownFile:
    return KnownFile(row["size"], row["modified"], bytes.fromhex(row["content"]))


def folder_subpaths(path: str) -> list[str]:
    """All that `in:` may match; short ones first, should there be too many."""
    folder = normalize_folder(path.replace(os.sep, "/").rpartition("/")[0])
    names = [name for name in escaped(folder).split("/") if name]
    subpaths = dict.fromkeys(
        "/".join(names[start : start + length])
        for length in range(1, len(names) + 1)
        for start in range(len(names) - length + 1)
    )
    return list(subpaths)[:MAX_SUBPATHS]


def expression(where: Where | None) -> str:
    """A filter as a Milvus expression; empty for none."""
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
    """The paths below a folder, as a range in byte order, or a single path."""
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
    """ESCAPE and two hex digits: of a control character, or of a byte that Python decodes as U+DC80 to U+DCFF."""
    return UNSAFE.sub(
        lambda m: ESCAPE + (ESCAPE if m[0] == ESCAPE else f"{ord(m[0]) & 255:02x}"), text
    )


def unescaped(text: str) -> str:
    return ESCAPE_SEQUENCE.sub(
        lambda m: ESCAPE if m[1] == ESCAPE else _unescape(int(m[1], 16)), text
    )


def _unescape(code: int) -> str:
    return chr(code if code < 0x80 else 0xDC00 + code)


def _in_folder(name: str) -> str:
    subpath = normalize_folder(name)
    # Earlier versions stored names as a Mac writes them: é as two characters.
    forms = dict.fromkeys((subpath, unicodedata.normalize("NFD", subpath)))
    parts = [f"array_contains(folders, {quoted(escaped(form))})" for form in forms]
    return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"


def _seconds(time: str) -> int:
    return int(np.datetime64(time, "s").astype(np.int64))
