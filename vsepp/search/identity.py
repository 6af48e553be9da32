"""Which model made a collection's vectors: those of two models must never be compared."""

import hashlib
import json
from dataclasses import asdict

from vsepp.errors import WrongRequest
from vsepp.search.embedder import IN_THE_BOX, Embedder
from vsepp.search.photos import Model

DECISIVE = ("tokenizer.json", "model.safetensors")  # the graphs read their numbers from the latter


def model_of(embedder: Embedder) -> Model:
    """What a collection has to remember."""
    return Model(
        identity=_identity(embedder),
        folder=embedder.folder.absolute(),
        dim=embedder.dim,
        similarity=embedder.architecture.similarity,
    )


def check_model(embedder: Embedder, expected: Model, collection: str) -> None:
    """Refuse a model whose vectors are not those of the collection."""
    if _identity(embedder) != expected.identity:
        raise WrongRequest(
            f"{collection} holds vectors of another model than {embedder.folder}: it was made with "
            f"{expected.folder}. Leave the model out to use that one, or index the photos with this "
            "model into another file."
        )


def find_model(expected: Model, collection: str) -> Embedder:
    """The model that a collection was made with: where it was then, or in the box."""
    for folder in (expected.folder, IN_THE_BOX):
        if (folder / "config.json").is_file():
            embedder = Embedder(folder)
            if _identity(embedder) == expected.identity:
                return embedder
    found = "has changed since" if expected.folder.is_dir() else "is not there any more"
    raise WrongRequest(
        f"{collection} was made with the model in {expected.folder}, which {found}. Name the folder "
        "where it is now, with --model, or index the photos with another model into another file."
    )


def _identity(embedder: Embedder) -> str:
    digest = hashlib.sha256()
    digest.update(json.dumps(asdict(embedder.architecture), sort_keys=True).encode())
    for name in DECISIVE:
        with (embedder.folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
