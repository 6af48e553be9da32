"""A snapshot's ONNX graphs on onnxruntime: pictures and texts -> vectors, without torch."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vsepp.data.pictures import Picture, Pixels
from vsepp.data.resources import made_ahead
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import IN_THE_BOX as IN_THE_BOX
from vsepp.encoders.architecture import read_config
from vsepp.errors import WrongRequest
from vsepp.search.graphs import open_graph
from vsepp.search.likely_words import LikelyWords
from vsepp.search.similarity import unit

Vectors = NDArray[np.float32]
TEXTS, PICTURES = 32, 16  # at once; what a net makes of more pictures leaves the caches
FILES = ("config.json", "tokenizer.json", "image.onnx", "caption.onnx", "model.safetensors")


class Embedder:
    """Turns pictures and texts into vectors of one joint space."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.architecture, self.notes = read_config(self.folder)
        graphs = [self.folder / name for name in ("image.onnx", "caption.onnx")]
        if not all(graph.is_file() for graph in graphs):
            raise WrongRequest(
                f"{self.folder} has no ONNX graphs: its training has not ended (go on with --resume), "
                "or was told to make none (graphs=false). Snapshot.load(folder).save(folder) adds them."
            )
        self.vocabulary = Vocabulary.load(self.folder / "tokenizer.json")
        self._image = open_graph(graphs[0], {"images"}, spinning=False)
        self._caption = open_graph(graphs[1], {"words", "lengths"})
        self._check_graphs()

    def __reduce__(self) -> tuple[Any, ...]:
        """A model travels with its files: whoever gets it needs none of them."""
        files = {name: (self.folder / name).read_bytes() for name in FILES}
        return _arrived, (files,)

    def _check_graphs(self) -> None:
        """Where they say what they take and make, it is what the configuration says."""
        made = [graph.get_outputs()[0].shape[-1] for graph in (self._image, self._caption)]
        seen = self._image.get_inputs()[0].shape[-1]
        size = seen if self.architecture.takes_features else self.architecture.size
        if {number for number in made if isinstance(number, int)} - {self.dim} or (
            isinstance(seen, int) and seen != size
        ):
            raise WrongRequest(
                f"{self.folder}: its ONNX graphs do not fit config.json: pictures of {seen} pixels, "
                f"vectors of {made[0]} and {made[1]} numbers."
            )

    @property
    def dim(self) -> int:
        return self.architecture.dim

    @cached_property
    def likely_words(self) -> LikelyWords:
        """What unknown words may stand for; made ready when the first one comes."""
        return LikelyWords(self.vocabulary.words())

    @cached_property
    def nothing(self) -> Vectors:
        """What the model makes of a text without words: its direction."""
        # -> (D,)
        (direction,) = unit(self.embed_texts([""]))
        return np.asarray(direction)

    def embed_images(self, pictures: Iterable[Picture]) -> Vectors:
        """Vectors (N, D) of files, open pictures or anything with `open(short_side)`."""
        view = self.architecture.view

        def cut(picture: Picture) -> Pixels:
            return view.cut(view.resized(picture))

        return self.embed_pixels(made_ahead(map(_decoded_if_open, pictures), cut, 2 * PICTURES))

    def embed_pixels(self, cut: Iterable[Pixels]) -> Vectors:
        """Vectors (N, D) of pictures that are cut as the net sees them."""
        if self.architecture.takes_features:
            raise WrongRequest(
                f"{self.folder} was trained on {self.architecture.backbone}, without the net that "
                "made them: it embeds features (embed_features), not pictures. To put the net into the "
                "snapshot, train with --set model.backbone=NAME --set model.weights=FILE."
            )
        waiting = iter(cut)
        vectors = [np.zeros((0, self.dim), dtype=np.float32)]
        while batch := list(islice(waiting, PICTURES)):
            vectors += self._image.run(None, {"images": np.stack(batch)})
        return np.concatenate(vectors)

    def embed_features(self, features: Vectors) -> Vectors:
        """Vectors (N, D) of the features (N, D_phi) of a model that was trained on such."""
        if not self.architecture.takes_features:
            raise WrongRequest(f"{self.folder} embeds pictures (embed_images), not features.")
        chunks = np.split(features, range(1024, len(features), 1024))
        vectors = [self._image.run(None, {"images": chunk})[0] for chunk in chunks]
        return np.concatenate(vectors)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Vectors (N, D) of captions or queries."""
        words = self.vocabulary.encode(texts)
        vectors = np.zeros((len(words), self.dim), dtype=np.float32)
        # Texts of like length share a batch: less padding, less work.
        order = sorted(range(len(words)), key=lambda number: len(words[number]))
        for start in range(0, len(order), TEXTS):
            chosen = order[start : start + TEXTS]
            lengths = np.array([len(words[number]) for number in chosen])
            ids = np.zeros((len(chosen), lengths.max()), dtype=np.int64)
            for row, number in enumerate(chosen):
                ids[row, : lengths[row]] = words[number]
            (vectors[chosen],) = self._caption.run(None, {"words": ids, "lengths": lengths})
        return vectors


def _decoded_if_open(picture: Picture) -> Picture:
    """The same open picture may come twice, and two threads must not decode it at once."""
    if isinstance(picture, Image.Image):
        picture.load()
    return picture


def _arrived(files: dict[str, bytes]) -> Embedder:
    """Unpacked where it may travel on from; what is unpacked goes when it goes."""
    folder = Path(mkdtemp(prefix="vsepp-"))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    embedder = Embedder(folder)
    finalize(embedder, rmtree, folder, ignore_errors=True)
    return embedder


def load(folder: Path | str | None = None) -> Embedder:
    """The model in a snapshot's folder, ready for use; without a folder, the model in the box."""
    return Embedder(IN_THE_BOX if folder is None else folder)
