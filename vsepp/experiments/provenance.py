"""Provenance of results (version, commit, hardware, libraries, date), and fingerprints of runs.

A fingerprint is everything that decides which model a run ends with: all keys of the recipe except those marked
`NoEffect`, and the content of the files that they name: images and captions, backbone weights, the snapshot to start
from, teachers, word vectors. Runs are resumed and finished ones reused only if fingerprints agree. Paths are not part of
it: a copy of a collection is the same collection, and a changed image makes it another one.
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from vsepp import __version__
from vsepp.data.captioned import CaptionedImage, CaptionedImages, have_features
from vsepp.data.features import features_of
from vsepp.data.image_file import PictureSource
from vsepp.data.resources import made_ahead
from vsepp.data.webdataset import ShardMember
from vsepp.encoders import backbones
from vsepp.encoders.architecture import read_config
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.recipes.keys import decisive_keys
from vsepp.experiments.recipes.start import snapshot_to_start_from
from vsepp.experiments.stored_features import learns_from_features_alone

ROOT = Path(__file__).parents[2]
CODE = ("vsepp", "results/*.py", "benchmarks/*.py")
LIBRARIES = ("torch", "torchvision", "timm", "tokenizers", "numpy", "pillow")
Fingerprint = dict[str, Any]  # by the recipe's dotted keys; hashes where a key leads to a file
CHUNK = 64  # images that a thread hashes at a time
FEATURE_ROWS = 4096  # hashed at a time
SNAPSHOT_FILES = ("model.safetensors", "tokenizer.json")  # hashed, beside the architecture


def circumstances(packages: Sequence[str] = LIBRARIES) -> dict[str, Any]:
    """The commit is empty where the code runs outside of its repository."""
    commit = _git("rev-parse", "--short", "HEAD") if (ROOT / ".git").exists() else ""
    return {
        "vsepp": __version__,
        "commit": commit,
        # Whether the working tree differs from the commit.
        "changed_since": bool(commit and _git("status", "--porcelain", "--", *CODE)),
        "hardware": f"{_processor()}, {os.cpu_count()} cores{_gpu()}",
        "versions": {"python": platform.python_version()} | _versions(packages),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def notes_of(data: CaptionedImages, of_run: Fingerprint) -> dict[str, Any]:
    """The notes of a snapshot about its origin."""
    return {
        "data": data.name,
        "left_out": len(data.left_out),
        "made_by": circumstances(),
        "fingerprint": of_run,
    }


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, cwd=ROOT, timeout=30)
    except (OSError, subprocess.TimeoutExpired):  # git is not installed
        return ""
    return done.stdout.strip()


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _gpu() -> str:
    import torch

    return f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def fingerprint(recipe: Recipe, data: CaptionedImages) -> Fingerprint:
    found = {
        **decisive_keys(recipe),
        "data": content_of(recipe, data),
        "model.weights": _weights(recipe, data),
        "model.word_vectors": _word_vectors(recipe),
        "start_from": _snapshot(recipe.start_from),
        "teachers": [_snapshot(folder) for folder in recipe.teachers],
    }
    # As it will be read back from JSON: tuples become lists.
    plain: Fingerprint = json.loads(json.dumps(found, default=vars))
    return plain


def differences(before: Fingerprint, now: Fingerprint) -> list[str]:
    """Each key in which two runs differ, with both values."""
    return [
        f"{key} (was {before.get(key)}, is {now.get(key)})"
        for key in before | now
        if before.get(key) != now.get(key)
    ]


def short_name(of_run: Fingerprint) -> str:
    """Eight characters for a folder's name; the same for all seeds."""
    without_seed = {key: value for key, value in of_run.items() if key != "seed"}
    return hashlib.sha256(json.dumps(without_seed, sort_keys=True).encode()).hexdigest()[:8]


def content_of(recipe: Recipe, data: CaptionedImages) -> str:
    """Hash of the training and validation data: names, captions, splits and bytes."""
    data = data.with_captions(recipe.data.captions)
    items = [*data.training_items(recipe.data.train), *data.split(recipe.data.validate)]
    made_by = {key: value for key, value in (data.origin or {}).items() if key != "data"}
    return content_of_items(items, json.dumps(made_by, sort_keys=True))


def content_of_items(items: Sequence[CaptionedImage], more: str = "") -> str:
    digest = hashlib.sha256(more.encode())
    for part in _digests(items):
        digest.update(part)
    return digest.hexdigest()[:16]


def weights_of(snapshot: Path) -> str:
    """Short hash of a snapshot's weights."""
    return _hash_file(snapshot / SNAPSHOT_FILES[0]).hex()[:16]


def _digests(items: Sequence[CaptionedImage]) -> Iterator[bytes]:
    """A digest per chunk; files are read in threads, as hashing releases the GIL."""
    features = features_of(items) if have_features(items) else None

    def digest(chunk: Sequence[CaptionedImage]) -> bytes:
        found = hashlib.sha256()
        for item in chunk:
            words = json.dumps([item.key, item.split, item.captions]).encode()
            found.update(words + (b"" if features is not None else _hash_image(item.path)))
        return found.digest()

    yield from made_ahead(
        (items[start : start + CHUNK] for start in range(0, len(items), CHUNK)), digest
    )
    if features is not None:
        yield f"{features.dtype} {features.shape}".encode()
        for start in range(0, len(features), FEATURE_ROWS):
            rows = np.ascontiguousarray(features[start : start + FEATURE_ROWS])
            yield hashlib.sha256(rows.data).digest()


def _hash_image(source: Path | PictureSource) -> bytes:
    if isinstance(source, Path):
        return _hash_file(source)
    if isinstance(source, ShardMember):
        with source.shard.open("rb") as file:
            file.seek(source.offset)
            return hashlib.sha256(file.read(source.size)).digest()
    return repr(source).encode()  # rendered from its description


def _hash_file(file: Path) -> bytes:
    known = file.stat()
    return _hash_version(file, known.st_size, known.st_mtime_ns)


@cache  # the rows of a table share their images
def _hash_version(file: Path, size: int, changed: int) -> bytes:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def _weights(recipe: Recipe, data: CaptionedImages) -> str:
    """Hash of the pretrained backbone; random weights are determined by the seed."""
    keys = recipe.model
    is_of_start = recipe.start_from and "backbone" not in recipe.differs_from_start
    if is_of_start or keys.weights == "none" or learns_from_features_alone(recipe, data):
        return "none"
    file = Path(keys.weights)
    changed = file.stat().st_mtime_ns if file.is_file() else 0
    return _hash_backbone(keys.backbone, keys.weights, keys.size, changed)


@cache  # the rows of a table share their backbones
def _hash_backbone(name: str, weights: str, size: int, changed: int) -> str:
    return backbones.fingerprint(backbones.backbone(name, weights, size))


def _word_vectors(recipe: Recipe) -> str:
    file = Path(recipe.model.word_vectors).expanduser()
    # A missing file is reported by its reader.
    return _hash_file(file).hex()[:16] if file.is_file() and not recipe.start_from else ""


def _snapshot(name: str) -> str:
    """Hash of the snapshot that is meant; the name itself where it is a recipe's."""
    folder = snapshot_to_start_from(name) if name else None
    if folder is None:
        return name
    plan = json.dumps(vars(read_config(folder)[0]), sort_keys=True).encode()
    files = [folder / file for file in SNAPSHOT_FILES]
    # A missing file is reported by its reader.
    hashes = b"".join(_hash_file(file) for file in files if file.is_file())
    return hashlib.sha256(plan + hashes).hexdigest()[:16]
