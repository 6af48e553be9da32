"""A snapshot's ONNX graphs on onnxruntime: images and texts -> vectors, without torch."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import numpy as np
import onnxruntime
from PIL import Image

from vsepp.data.pictures import Picture, Pixels
from vsepp.data.resources import made_ahead, num_threads
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import IN_THE_BOX, read_config, snapshot_identities
from vsepp.errors import WrongRequest
from vsepp.search.index.numpy_similarity import Vectors, unit
from vsepp.search.query.spelling import WordMatcher
from vsepp.search.stores.store import ModelRecord

TEXT_BATCH, IMAGE_BATCH, FEATURE_BATCH = 32, 4, 1024  # of 16 images, layers exceed the CPU's caches
DECODED_AHEAD = 32  # images
WEIGHTS = "model.safetensors"
FILES = ("config.json", "tokenizer.json", "image.onnx", "caption.onnx", WEIGHTS)
CPU = "CPUExecutionProvider"
PROVIDERS = ("CUDAExecutionProvider", CPU)  # those that are available

# Reading a protobuf without onnx, which is not installed: the fields of onnx.proto that lead to tensors.
FIELDS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "external data"},
    "external data": {1: "key", 2: "value"},
}
MAX_DEPTH = 64  # of messages inside messages
VARINT, EIGHT_BYTES, LENGTH_DELIMITED, FOUR_BYTES = 0, 1, 2, 5  # protobuf's wire types


def load(folder: Path | str | None = None) -> "Embedder":
    """The model of a snapshot's folder; by default, the built-in model."""
    return Embedder(IN_THE_BOX if folder is None else folder)


class Embedder:
    """Embeds images and texts in one joint space."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.architecture, self.notes = read_config(self.folder)
        graphs = [self.folder / name for name in ("image.onnx", "caption.onnx")]
        if not all(graph.is_file() for graph in graphs):
            raise WrongRequest(
                f"{self.folder} has no ONNX graphs: its training has not ended (resume it), or was "
                "configured to export none (graphs=false). Snapshot.load(folder).save(folder) adds them."
            )
        # Several batches at once, each in a thread of its own: fewer waits than with all threads on one.
        self._image = open_graph(graphs[0], {"images"}, threads=1)
        self._caption = open_graph(graphs[1], {"words", "lengths"})
        self._check_graphs()

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled model contains its files: other machines need none of them."""
        files = {name: (self.folder / name).read_bytes() for name in FILES}
        return _unpickle, (files,)

    def _check_graphs(self) -> None:
        """Where they declare their shapes, these must be those of the configuration."""
        outputs = [graph.get_outputs()[0].shape[-1] for graph in (self._image, self._caption)]
        pixels = self._image.get_inputs()[0].shape[-1]
        size = pixels if self.architecture.takes_features else self.architecture.size
        if {number for number in outputs if isinstance(number, int)} - {self.dim} or (
            isinstance(pixels, int) and pixels != size
        ):
            raise WrongRequest(
                f"{self.folder}: its ONNX graphs do not fit config.json: images of {pixels} pixels, "
                f"vectors of {outputs[0]} and {outputs[1]} dimensions."
            )

    @property
    def dim(self) -> int:
        return self.architecture.dim

    def record(self) -> ModelRecord:
        """By which a collection recognises its model."""
        identity = snapshot_identities(self.folder)[0]
        return ModelRecord(identity, self.folder.absolute(), self.dim, self.architecture.similarity)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Loaded with the first text: indexing photos needs none."""
        return Vocabulary.load(self.folder / "tokenizer.json")

    @cached_property
    def word_matcher(self) -> WordMatcher:
        """Finds known words for unknown ones."""
        return WordMatcher(self.vocabulary.words())

    @cached_property
    def empty_text(self) -> Vectors:
        """The direction of a text without words."""
        # -> (D,)
        (direction,) = unit(self.embed_texts([""]))
        return np.asarray(direction)

    def embed_images(self, images: Iterable[Picture]) -> Vectors:
        """Vectors (N, D) of files, Pillow images or anything with `open(short_side)`."""
        view = self.architecture.view

        def crop(image: Picture) -> Pixels:
            return view.cut(view.resized(image))

        return self.embed_pixels(made_ahead(map(_decode_if_open, images), crop, DECODED_AHEAD))

    def embed_pixels(self, crops: Iterable[Pixels]) -> Vectors:
        """Vectors (N, D) of images that are cropped for the net."""
        if self.architecture.takes_features:
            raise WrongRequest(
                f"{self.folder} was trained on {self.architecture.backbone}, without the net that "
                "computed them: it embeds features (embed_features), not images. To put the net into "
                "the snapshot, train with model.backbone=NAME and model.weights=FILE."
            )
        most = self._image.get_inputs()[0].shape[0]  # a number where the graph takes no other
        size, remaining = most if isinstance(most, int) else IMAGE_BATCH, iter(crops)
        batches = iter(lambda: list(islice(remaining, size)), [])
        is_gpu = self._image.get_providers()[0] != CPU
        threads = 1 if is_gpu else num_graph_threads() or num_threads()
        vectors = made_ahead(batches, self._embed_batch, threads, threads)
        return np.concatenate([np.zeros((0, self.dim), dtype=np.float32), *vectors])

    def _embed_batch(self, crops: list[Pixels]) -> Vectors:
        vectors: Vectors = self._image.run(None, {"images": np.stack(crops)})[0]
        return vectors

    def embed_features(self, features: Vectors) -> Vectors:
        """Vectors (N, D) of features (N, D_phi), for a model that was trained on them."""
        if not self.architecture.takes_features:
            raise WrongRequest(f"{self.folder} embeds images (embed_images), not features.")
        batches = np.split(features, range(FEATURE_BATCH, len(features), FEATURE_BATCH))
        return np.concatenate([self._image.run(None, {"images": batch})[0] for batch in batches])

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Vectors (N, D) of captions or queries."""
        words = self.vocabulary.encode(texts)
        vectors = np.zeros((len(words), self.dim), dtype=np.float32)
        # Texts of similar length share a batch: less padding, less work.
        order = sorted(range(len(words)), key=lambda number: len(words[number]))
        for start in range(0, len(order), TEXT_BATCH):
            chosen = order[start : start + TEXT_BATCH]
            lengths = np.array([len(words[number]) for number in chosen])
            ids = np.zeros((len(chosen), lengths.max()), dtype=np.int64)
            for row, number in enumerate(chosen):
                ids[row, : lengths[row]] = words[number]
            (vectors[chosen],) = self._caption.run(None, {"words": ids, "lengths": lengths})
        return vectors


def _decode_if_open(image: Picture) -> Picture:
    """The same open image may be given twice, and two threads must not decode it at once."""
    if isinstance(image, Image.Image):
        image.load()
    return image


def _unpickle(files: dict[str, bytes]) -> Embedder:
    """Into a temporary folder, from which it can be pickled again."""
    folder = Path(mkdtemp(prefix="vsepp-"))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    embedder = Embedder(folder)
    finalize(embedder, rmtree, folder, ignore_errors=True)
    return embedder


# ---- graphs from anyone: they may read the snapshot's weights, and no other file ----------------


def open_graph(
    graph: Path, inputs: set[str], threads: int | None = None
) -> onnxruntime.InferenceSession:
    """A session for a graph with these inputs; by default in as many threads as OMP_NUM_THREADS says, or all cores."""
    check_external_data(graph)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_graph_threads() if threads is None else threads
    options.log_severity_level = 4  # errors are raised below
    available = onnxruntime.get_available_providers()
    providers = [name for name in PROVIDERS if name in available]
    try:
        session = onnxruntime.InferenceSession(str(graph), options, providers=providers)
    except Exception as error:  # onnxruntime has a dozen of its own, without a common base
        raise _unusable(graph, str(error).strip().splitlines()[0]) from error
    found = {one.name for one in session.get_inputs()}
    if found != inputs:
        raise _unusable(
            graph, f"its inputs are {', '.join(sorted(found))}, not {', '.join(sorted(inputs))}"
        )
    return session


def num_graph_threads() -> int:
    """As OMP_NUM_THREADS says, which Ray sets for each of its workers; 0: all cores."""
    # "4,2" is legal: threads of the outer loop, then of the inner one.
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def check_external_data(graph: Path) -> None:
    """Refuse a graph that would read any file but the weights beside it, also through a link."""
    try:
        named = set(_external_files(memoryview(graph.read_bytes()), "model"))
    except (IndexError, ValueError, UnicodeDecodeError) as error:
        raise _unusable(graph, "it is truncated, or not an ONNX file") from error
    if others := named - {WEIGHTS}:
        raise WrongRequest(
            f"{graph} reads {', '.join(map(repr, sorted(others)))}. A snapshot's graphs read its "
            f"{WEIGHTS} and nothing else: do not use it unless you know who made it."
        )
    weights = graph.parent / WEIGHTS
    if named and weights.resolve().parent != graph.parent.resolve():
        raise WrongRequest(
            f"{weights} is a link to {weights.resolve()}, outside of the snapshot. Copy the file."
        )


def _unusable(graph: Path, reason: str) -> WrongRequest:
    return WrongRequest(
        f"{graph} cannot be used: {reason}. Snapshot.load({str(graph.parent)!r}).save(FOLDER) "
        "exports the graphs again."
    )


def _external_files(message: memoryview, kind: str, depth: int = 0) -> Iterator[str]:
    """The files that a message's tensors name."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    texts: dict[str, list[str]] = {"key": [], "value": []}
    for number, content in _fields(message):
        inner = FIELDS[kind].get(number)
        if inner in texts:
            texts[inner].append(bytes(content).decode())
        elif inner is not None:
            yield from _external_files(content, inner, depth + 1)
    if kind == "external data" and "location" in texts["key"]:
        yield from texts["value"]


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the fields that are texts, bytes or messages."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == LENGTH_DELIMITED:
            length, place = _varint(message, place)
            if place + length > len(message):
                raise IndexError(place + length)
            yield number, message[place : place + length]
            place += length
        elif wire_type == VARINT:
            _, place = _varint(message, place)
        elif wire_type in (EIGHT_BYTES, FOUR_BYTES):
            place += 8 if wire_type == EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire_type}")


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Seven bits in each byte, the lowest first; and the place behind it."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")
