"""Which model made a collection's vectors: those of two models must never be compared."""

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path

from vsepp.encoders.architecture import CONFIG, Architecture, read_config
from vsepp.errors import WrongRequest
from vsepp.search.embedder import FILES, IN_THE_BOX, Embedder
from vsepp.search.remembered import Model

DECISIVE = ("tokenizer.json", "model.safetensors")
GRAPHS = ("image.onnx", "caption.onnx")  # they say what is done with the numbers
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
        identity=_identities(embedder.folder)[0],
        folder=embedder.folder.absolute(),
        dim=embedder.dim,
        similarity=embedder.architecture.similarity,
    )


def check_model(embedder: Embedder, expected: Model, collection: str) -> None:
    """Refuse a model whose vectors are not those of the collection."""
    identities = _identities(embedder.folder)
    if not _is_among(expected, identities, embedder.folder):
        raise WrongRequest(
            f"{collection} holds vectors of another model than {embedder.folder}: it was made with "
            f"{expected.folder}{_only_graphs_differ(expected, identities)}. Leave the model out to use "
            "that one, or index the photos with this model into another file."
        )


def find_model(expected: Model, collection: str) -> Embedder:
    """The model that a collection was made with: where it was then, or in the box.

    Files are compared before any is opened as a model. A collection may come from somebody else: a
    relative folder would be one of whatever folder we are in.
    """
    found = "is not there any more"
    for folder in (expected.folder, IN_THE_BOX):
        if not folder.is_absolute() or not all((folder / name).is_file() for name in FILES):
            continue
        try:
            identities = _identities(folder)
        except WrongRequest:  # of another version
            identities = []
        if _is_among(expected, identities, folder):
            return Embedder(folder)
        if folder == expected.folder:
            found = f"has changed since{_only_graphs_differ(expected, identities)}"
    raise WrongRequest(
        f"{collection} was made with the model in {expected.folder}, which {found}. Name the folder "
        "where it is now, with --model, or index the photos with another model into another file."
    )


def _is_among(expected: Model, identities: list[str], folder: Path) -> bool:
    """The model in the box may have other graphs in another version: they are as good as our code."""
    ours = folder.resolve() == IN_THE_BOX.resolve()
    return expected.identity in identities or (ours and _has_its_weights(expected, identities))


def _has_its_weights(expected: Model, identities: list[str]) -> bool:
    return expected.identity.partition(":")[0] in identities


def _only_graphs_differ(expected: Model, identities: list[str]) -> str:
    same = _has_its_weights(expected, identities)
    return " (the weights are the same, the ONNX graphs are not)" if same else ""


def _identities(folder: Path) -> list[str]:
    """How a model is remembered, then how collections that were made before remember it.

    Those know nothing of graphs, so any with the right weights will do.
    """
    architecture, _ = read_config(folder)
    plan = asdict(architecture)
    # A key at its default says nothing: one that a later vsepp adds does not make another model.
    said = {key: value for key, value in plan.items() if value != DEFAULTS[key]}
    as_written = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["architecture"]
    in_full = {key: plan[key] for key in FORMER_KEYS}
    files = b"".join(_digest(folder / name) for name in DECISIVE)
    former = [
        hashlib.sha256(json.dumps(keys, sort_keys=True).encode() + files).hexdigest()
        for keys in (said, in_full, as_written)
    ]
    graphs = hashlib.sha256(b"".join(_digest(folder / name) for name in GRAPHS)).hexdigest()
    return [f"{former[0]}:{graphs}", *former]


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
