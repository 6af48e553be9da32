"""Opens a snapshot's ONNX graphs, which may come from strangers: they read the snapshot's weights and no other file."""

import os
from collections.abc import Iterator
from pathlib import Path

import onnxruntime

from vsepp.errors import WrongRequest

WEIGHTS = "model.safetensors"
DEVICES = ("CUDAExecutionProvider", "CPUExecutionProvider")  # the first that is there
DEEPEST = 64  # messages inside of messages

# The numbers of those fields of onnx.proto that lead to tensors; onnx itself is not installed for use.
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
VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5  # how protobuf writes a field


def open_graph(
    graph: Path, inputs: set[str], spinning: bool = True
) -> onnxruntime.InferenceSession:
    """A graph with these inputs, ready to run."""
    check_external_data(graph)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    options.log_severity_level = 4  # what goes wrong is said once, below
    if not spinning:
        # Threads would wait for work by turning in circles, on cores that decode the next photos.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    there = onnxruntime.get_available_providers()
    chosen = [name for name in DEVICES if name in there]
    try:
        session = onnxruntime.InferenceSession(str(graph), options, providers=chosen)
    except Exception as error:  # onnxruntime has a dozen of its own, and no common one
        raise _broken(graph, str(error).strip().splitlines()[0]) from error
    found = {one.name for one in session.get_inputs()}
    if found != inputs:
        raise _broken(
            graph, f"it takes {', '.join(sorted(found))}, not {', '.join(sorted(inputs))}"
        )
    return session


def threads() -> int:
    """What other libraries go by, and what Ray sets for each of its workers; 0: all cores."""
    # "4,2" is legal: threads of the outer loop, then of the inner one.
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def check_external_data(graph: Path) -> None:
    """Refuse a graph that would read another file than the weights beside it, also through a link."""
    try:
        named = set(_locations(memoryview(graph.read_bytes()), "model"))
    except (IndexError, ValueError, UnicodeDecodeError) as error:
        raise _broken(graph, "it is cut off, or no ONNX file") from error
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


def _broken(graph: Path, reason: str) -> WrongRequest:
    return WrongRequest(
        f"{graph} cannot be used: {reason}. Snapshot.load({str(graph.parent)!r}).save(FOLDER) makes "
        "the graphs anew."
    )


def _locations(message: memoryview, kind: str, depth: int = 0) -> Iterator[str]:
    """The files that the tensors of a message name."""
    if depth > DEEPEST:
        raise ValueError("too deep")
    texts: dict[str, list[str]] = {"key": [], "value": []}
    for number, content in _parts(message):
        inner = FIELDS[kind].get(number)
        if inner in texts:
            texts[inner].append(bytes(content).decode())
        elif inner is not None:
            yield from _locations(content, inner, depth + 1)
    if kind == "external data" and "location" in texts["key"]:
        yield from texts["value"]


def _parts(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the fields that hold texts, bytes or messages."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire = tag >> 3, tag & 7
        if wire == LENGTH:
            length, place = _varint(message, place)
            if place + length > len(message):
                raise IndexError(place + length)
            yield number, message[place : place + length]
            place += length
        elif wire == VARINT:
            _, place = _varint(message, place)
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            place += 8 if wire == EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire}")


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; and where it ends."""
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
