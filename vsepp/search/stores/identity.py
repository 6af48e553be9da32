"""Which model a collection belongs to: vectors of two models must never be compared."""

from pathlib import Path

from vsepp.encoders.architecture import IN_THE_BOX, snapshot_identities
from vsepp.errors import WrongRequest
from vsepp.search.embedder import FILES, Embedder
from vsepp.search.stores.store import ModelRecord


def check_model(embedder: Embedder, expected: ModelRecord, collection: str) -> None:
    """Refuse a model that did not make the collection's vectors."""
    identities = snapshot_identities(embedder.folder)
    if not _matches(expected, identities, embedder.folder):
        raise WrongRequest(
            f"{collection} contains vectors of another model than {embedder.folder}: it was made with "
            f"{expected.folder}{_if_only_graphs_differ(expected, identities)}. Leave the model out to "
            "use that one, or index the photos with this model into another file."
        )


def find_model(expected: ModelRecord, collection: str) -> Embedder:
    """The model that a collection was made with: in its former folder, or the built-in one.

    Files are compared before any is opened as a model. A collection may come from someone else: a
    relative folder would depend on the current directory, and is not used.
    """
    found = "no longer exists"
    for folder in (expected.folder, IN_THE_BOX):
        if not folder.is_absolute() or not all((folder / name).is_file() for name in FILES):
            continue
        try:
            identities = snapshot_identities(folder)
        except WrongRequest:  # of another version
            identities = []
        if _matches(expected, identities, folder):
            return Embedder(folder)
        if folder == expected.folder:
            found = f"has changed since{_if_only_graphs_differ(expected, identities)}"
    raise WrongRequest(
        f"{collection} was made with the model in {expected.folder}, which {found}. Name the folder "
        "where that model is now, or index the photos with another model into another file."
    )


def _matches(expected: ModelRecord, identities: list[str], folder: Path) -> bool:
    """The built-in model's graphs may differ between versions: they are as trusted as our code."""
    built_in = folder.resolve() == IN_THE_BOX.resolve()
    return expected.identity in identities or (built_in and _same_weights(expected, identities))


def _same_weights(expected: ModelRecord, identities: list[str]) -> bool:
    return expected.identity.partition(":")[0] in identities


def _if_only_graphs_differ(expected: ModelRecord, identities: list[str]) -> str:
    same = _same_weights(expected, identities)
    return " (the weights are the same, the ONNX graphs are not)" if same else ""
