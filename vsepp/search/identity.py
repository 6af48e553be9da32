"""Which model made a collection's vectors: those of two models must never be compared."""

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path

from vsepp.encoders.architecture import CONFIG, Architecture
from vsepp.errors import WrongRequest
from vsepp.search.embedder import IN_THE_BOX, Embedder
from vsepp.search.remembered import Model

DECISIVE = ("tokenizer.json", "model.safetensors")  # the graphs read their numbers from the latter
# What was hashed in full before defaults were left out.
FORMER_KEYS = (
    *("backbone", "size", "resize", "square", "dim", "word_dim", "caption_encoder", "similarity"),
    *("normalize_images", "normalize_features", "project_captions", "absolute", "num_words"),
    "crops",
)
DEFAULTS = {field.name: field.default for field in fields(Architecture)}


def model_of(embedder: Embedder) -> Model:
    """What a collection has to remember."""
    return Model(
        identity=_identities(embedder)[0],
        folder=embedder.folder.absolute(),
        dim=embedder.dim,
        similarity=embedder.architecture.similarity,
    )


def check_model(embedder: Embedder, expected: Model, collection: str) -> None:
    """Refuse a model whose vectors are not those of the collection."""
    if expected.identity not in _identities(embedder):
        raise WrongRequest(
            f"{collection} holds vectors of another model than {embedder.folder}: it was made with "
            f"{expected.folder}. Leave the model out to use that one, or index the photos with this "
            "model into another file."
        )


def find_model(expected: Model, collection: str) -> Embedder:
    """The model that a collection was made with: where it was then, or in the box."""
    for folder in (expected.folder, IN_THE_BOX):
        if (folder / CONFIG).is_file():
            embedder = Embedder(folder)
            if expected.identity in _identities(embedder):
                return embedder
    found = "has changed since" if expected.folder.is_dir() else "is not there any more"
    raise WrongRequest(
        f"{collection} was made with the model in {expected.folder}, which {found}. Name the folder "
        "where it is now, with --model, or index the photos with another model into another file."
    )


def _identities(embedder: Embedder) -> list[str]:
    """How a model is remembered, then how collections that were made before remember it."""
    plan = asdict(embedder.architecture)
    # A key at its default says nothing: one that a later vsepp adds does not make another model.
    said = {key: value for key, value in plan.items() if value != DEFAULTS[key]}
    as_written = json.loads((embedder.folder / CONFIG).read_text(encoding="utf-8"))["architecture"]
    in_full = {key: plan[key] for key in FORMER_KEYS}
    files = b"".join(_digest(embedder.folder / name) for name in DECISIVE)
    return [
        hashlib.sha256(json.dumps(keys, sort_keys=True).encode() + files).hexdigest()
        for keys in (said, in_full, as_written)
    ]


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
