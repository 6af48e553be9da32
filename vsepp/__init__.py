"""Visual-semantic embeddings with hard negatives: learn, measure and use a joint space.

Public names are found here and loaded when they are first used, so that `import vsepp` costs
nothing and using a model never imports torch.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Newer versions of onnxruntime give the machine a number, keep a diary at home and send it to their maker.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_HOMES = {
    "Architecture": "vsepp.encoders.architecture",
    "Batch": "vsepp.loading.batches",
    "CaptionedImage": "vsepp.data.captioned",
    "Collection": "vsepp.search.collection",
    "Embedder": "vsepp.search.embedder",
    "Embeddings": "vsepp.evaluation.embeddings",
    "Epoch": "vsepp.training.loop",
    "Hit": "vsepp.search.index.protocol",
    "JointEmbedding": "vsepp.encoders.joint",
    "Measurement": "vsepp.evaluation.measurement",
    "Pairs": "vsepp.loading.batches",
    "Phase": "vsepp.training.loop",
    "Recall": "vsepp.equations.ranking",
    "Recipe": "vsepp.experiments.recipe",
    "Retrieval": "vsepp.evaluation.retrieval",
    "Snapshot": "vsepp.snapshots.snapshot",
    "Vocabulary": "vsepp.data.tokens",
    "evaluate": "vsepp.evaluation.retrieval",
    "inner_product": "vsepp.equations.similarity",
    "load": "vsepp.search.embedder",
    "max_of_hinges": "vsepp.equations.losses",
    "measure_embeddings": "vsepp.evaluation.measurement",
    "open_data": "vsepp.data.collections",
    "order_similarity": "vsepp.equations.similarity",
    "ranks": "vsepp.equations.ranking",
    "read_embeddings": "vsepp.evaluation.embedding_files",
    "reproduce": "vsepp.experiments.reproduce",
    "sum_of_hinges": "vsepp.equations.losses",
    "train": "vsepp.training.trainer",
}

__all__ = list(_HOMES)

if TYPE_CHECKING:
    from vsepp.data.captioned import CaptionedImage
    from vsepp.data.collections import open_data
    from vsepp.data.tokens import Vocabulary
    from vsepp.encoders.architecture import Architecture
    from vsepp.encoders.joint import JointEmbedding
    from vsepp.equations.losses import max_of_hinges, sum_of_hinges
    from vsepp.equations.ranking import Recall, ranks
    from vsepp.equations.similarity import inner_product, order_similarity
    from vsepp.evaluation.embedding_files import read_embeddings
    from vsepp.evaluation.embeddings import Embeddings
    from vsepp.evaluation.measurement import Measurement, measure_embeddings
    from vsepp.evaluation.retrieval import Retrieval, evaluate
    from vsepp.experiments.recipe import Recipe
    from vsepp.experiments.reproduce import reproduce
    from vsepp.loading.batches import Batch, Pairs
    from vsepp.search.collection import Collection
    from vsepp.search.embedder import Embedder, load
    from vsepp.search.index.protocol import Hit
    from vsepp.snapshots.snapshot import Snapshot
    from vsepp.training.loop import Epoch, Phase
    from vsepp.training.trainer import train


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vsepp' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
