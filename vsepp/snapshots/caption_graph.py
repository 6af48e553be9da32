"""The caption encoders as ONNX graphs, node by node."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from vsepp.encoders.caption import BagOfWords, CaptionEncoder, GRUEncoder
from vsepp.encoders.pooling import Learned, Max, Mean
from vsepp.equations.similarity import EPSILON

Tensors = dict[str, np.ndarray]


class Graph:
    """Collects nodes and constants, which are referred to by name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: Tensors = {}

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: object) -> str:
        """Add a node; returns the name of its output."""
        name = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = value
        return name

    def integers(self, value: int) -> str:
        return self.constant(f"integers_{value}", np.array([value]))

    def number(self, name: str, value: float) -> str:
        return self.constant(name, np.array(value, dtype=np.float32))


def caption_graph(encoder: CaptionEncoder) -> onnx.GraphProto:
    """Words int64 (M, L), lengths int64 (M,) -> vectors float32 (M, D)."""
    tensors = {name: tensor.detach().cpu().numpy() for name, tensor in encoder.state_dict().items()}
    graph = Graph()
    embedded = graph.node(
        "Gather", graph.constant("words.weight", tensors["words.weight"]), "words"
    )
    if isinstance(encoder, BagOfWords):
        dim = len(tensors["bias"])
        psi = graph.node(
            "Add",
            _mean(graph, embedded, WordMask.of(graph)),
            graph.constant("bias", tensors["bias"]),
        )
    else:
        assert isinstance(encoder, GRUEncoder)
        linear = encoder.linear
        dim = encoder.gru.hidden_size if linear is None else linear.out_features
        psi = _projected(graph, _psi(graph, encoder, tensors, embedded), tensors)
    _to_joint_space(graph, psi, encoder.absolute)
    return helper.make_graph(
        graph.nodes,
        "caption",
        [
            helper.make_tensor_value_info("words", TensorProto.INT64, ["M", "L"]),
            helper.make_tensor_value_info("lengths", TensorProto.INT64, ["M"]),
        ],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["M", dim])],
        [numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )


def _psi(graph: Graph, encoder: GRUEncoder, tensors: Tensors, embedded: str) -> str:
    """The GRU's last state, or what is pooled from all of them; the mean of two directions."""
    names = ["gru"] if encoder.backward_gru is None else ["gru", "backward_gru"]
    states, last = _gru(graph, names, tensors, embedded)
    if encoder.pooling is None:
        return graph.node("ReduceMean", last, graph.integers(0), keepdims=0)
    by_time = graph.node("ReduceMean", states, graph.integers(1), keepdims=0)
    in_rows = graph.node("Transpose", by_time, perm=[1, 0, 2])  # (M, L, D)
    return _pooled(graph, encoder.pooling, in_rows, tensors)


def _gru(graph: Graph, names: Sequence[str], tensors: Tensors, embedded: str) -> tuple[str, str]:
    """All states (L, directions, M, D), and the last ones (directions, M, D)."""
    W, R, B = (
        _stacked(graph, [_gates(graph, name, kinds, tensors) for name in names])
        for kinds in (("weight_ih",), ("weight_hh",), ("bias_ih", "bias_hh"))
    )
    by_time = graph.node("Transpose", embedded, perm=[1, 0, 2])
    lengths = graph.node("Cast", "lengths", to=TensorProto.INT32)
    node = helper.make_node(
        "GRU",
        [by_time, W, R, B, lengths],
        ["states", "last"],
        hidden_size=tensors["gru.weight_hh_l0"].shape[1],
        linear_before_reset=1,
        direction="forward" if len(names) == 1 else "bidirectional",
    )
    graph.nodes.append(node)
    return "states", "last"


def _gates(graph: Graph, name: str, kinds: Sequence[str], tensors: Tensors) -> str:
    """Torch stacks the gates reset, update, new; ONNX wants update, reset, new.

    The three are contiguous parts of one stored tensor, joined anew when the graph is loaded.
    """
    parts = []
    for kind in kinds:
        reset, update, new = np.split(tensors[f"{name}.{kind}_l0"], 3)
        for gate, part in {"update": update, "reset": reset, "new": new}.items():
            parts.append(graph.constant(f"{name}.{kind}.{gate}", part))
    return graph.node("Concat", *parts, axis=0)


def _stacked(graph: Graph, directions: Sequence[str]) -> str:
    rows = [graph.node("Unsqueeze", part, graph.integers(0)) for part in directions]
    return graph.node("Concat", *rows, axis=0)


def _projected(graph: Graph, psi: str, tensors: Tensors) -> str:
    if "linear.weight" not in tensors:
        return psi
    W_g, b_g = (graph.constant(name, tensors[name]) for name in ("linear.weight", "linear.bias"))
    return graph.node("Gemm", psi, W_g, b_g, transB=1)


def _mean(graph: Graph, rows: str, words: "WordMask") -> str:
    # rows (M, L, D) -> (M, D)
    mask = graph.node("Cast", words.is_word, to=TensorProto.FLOAT)
    total = graph.node("ReduceSum", graph.node("Mul", rows, mask), graph.integers(1), keepdims=0)
    return graph.node("Div", total, graph.node("Cast", words.counts, to=TensorProto.FLOAT))


def _pooled(graph: Graph, pooling: nn.Module, states: str, tensors: Tensors) -> str:
    # states (M, L, D) -> (M, D)
    words, over_words = WordMask.of(graph), graph.integers(1)
    if isinstance(pooling, Mean):
        return _mean(graph, states, words)
    masked = graph.node("Where", words.is_word, states, graph.number("minus_infinity", -np.inf))
    if isinstance(pooling, Max):
        return graph.node("ReduceMax", masked, over_words, keepdims=0)
    assert isinstance(pooling, Learned)
    width = graph.node("Shape", "words", start=1, end=2)
    graph.nodes.append(helper.make_node("TopK", [masked, width], ["ranked", "who"], axis=1))
    ranked = graph.node("Where", words.is_word, "ranked", graph.number("nothing", 0))
    weights = _weights_of_ranks(graph, pooling, words, tensors)
    return graph.node("ReduceSum", graph.node("Mul", ranked, weights), over_words, keepdims=0)


def _weights_of_ranks(graph: Graph, pooling: Learned, words: "WordMask", tensors: Tensors) -> str:
    # -> (M, L, 1)
    last = graph.node("Sub", words.counts, graph.integers(1))
    from_bottom = graph.node("Sub", last, words.places)
    from_top = graph.node("Expand", words.places, graph.node("Shape", from_bottom))
    waves = graph.constant("waves", pooling.waves.cpu().numpy())
    angles = []
    for ranks in (from_top, from_bottom):
        deep = graph.node("Unsqueeze", ranks, graph.integers(-1))
        angles.append(graph.node("Mul", graph.node("Cast", deep, to=TensorProto.FLOAT), waves))
    both = graph.node("Concat", *angles, axis=-1)
    seen = graph.node("Concat", graph.node("Sin", both), graph.node("Cos", both), axis=-1)
    hidden = graph.node(
        "Add",
        _times(graph, seen, "pooling.hidden.weight", tensors),
        graph.constant("pooling.hidden.bias", tensors["pooling.hidden.bias"]),
    )
    scores = _times(graph, graph.node("Tanh", hidden), "pooling.weight.weight", tensors)
    there = graph.node("Where", words.is_word, scores, graph.number("minus_infinity", -np.inf))
    return graph.node("Softmax", there, axis=1)


def _times(graph: Graph, rows: str, name: str, tensors: Tensors) -> str:
    """Rows times a matrix as torch stores it: its transpose."""
    stored = graph.constant(name, tensors[name])
    return graph.node("MatMul", rows, graph.node("Transpose", stored, perm=[1, 0]))


@dataclass(frozen=True)
class WordMask:
    """Tells words from padding; fields are names in the graph."""

    places: str  # (L,) 0, 1, 2, ...
    counts: str  # (M, 1)
    is_word: str  # (M, L, 1)

    @classmethod
    def of(cls, graph: Graph) -> "WordMask":
        width = graph.node("Squeeze", graph.node("Shape", "words", start=1, end=2))
        zero, one = (graph.constant(name, np.array(n)) for n, name in enumerate(("zero", "one")))
        places = graph.node("Range", zero, width, one)
        counts = graph.node("Unsqueeze", "lengths", graph.integers(-1))
        is_word = graph.node("Less", places, counts)
        return cls(places, counts, graph.node("Unsqueeze", is_word, graph.integers(-1)))


def _to_joint_space(graph: Graph, raw: str, absolute: bool) -> None:
    """Onto the unit hypersphere, and to absolute values where the model takes them."""
    norm = graph.node("ReduceL2", raw, graph.integers(-1))
    safe = graph.node("Max", norm, graph.number("epsilon", EPSILON))
    unit = graph.node("Div", raw, safe, name="unit" if absolute else "vectors")
    if absolute:
        graph.node("Abs", unit, name="vectors")
