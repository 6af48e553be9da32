"""The ONNX graphs of a snapshot: one turns pixels into vectors, the other words.

Both read their numbers from the snapshot's model.safetensors, so every weight is stored once.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from vsepp.encoders.architecture import Architecture
from vsepp.encoders.caption import BagOfWords, CaptionEncoder
from vsepp.encoders.image import EPSILON, ImageEncoder

OPSET = 18
SMALL = 256  # bytes; what is smaller stays inside the graph


def export_images(encoder: ImageEncoder, plan: Architecture, weights: Path) -> None:
    """image.onnx: images uint8 (M, 3, S, S) -> vectors float32 (M, D).

    A model of ten crops takes (M, 10, 3, S, S), one of features float32 (M, D_phi).
    """
    was_training = encoder.training
    device = next(encoder.parameters()).device
    example = _example(encoder, plan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            encoder.cpu().eval(),
            (example,),
            dynamo=True,
            verbose=False,
            optimize=False,  # or batch norms would be folded into second copies of the weights
            opset_version=OPSET,
            input_names=["images"],
            output_names=["vectors"],
            dynamic_shapes=({0: torch.export.Dim("M")},),
        )
    encoder.to(device).train(was_training)
    assert program is not None  # export() returns None only in its older form
    _save(program.model_proto, weights, "image.onnx")


def _example(encoder: ImageEncoder, plan: Architecture) -> torch.Tensor:
    if plan.takes_features:
        return torch.zeros(2, encoder.backbone.num_features)
    crops = (plan.crops,) if plan.crops > 1 else ()
    return torch.zeros(2, *crops, 3, plan.size, plan.size, dtype=torch.uint8)


Nodes = list[onnx.NodeProto]
Constants = dict[str, np.ndarray]


def export_captions(encoder: CaptionEncoder | BagOfWords, weights: Path) -> None:
    """caption.onnx: words int64 (M, L), lengths int64 (M,) -> vectors float32 (M, D)."""
    tensors = {name: tensor.detach().cpu().numpy() for name, tensor in encoder.state_dict().items()}
    if isinstance(encoder, BagOfWords):
        nodes, constants, raw = _bag_nodes(tensors)
    else:
        nodes, constants, raw = _gru_nodes(encoder, tensors)
    unit_nodes, unit_constants = _unit_nodes(raw, encoder.absolute)
    dim = tensors["bias" if isinstance(encoder, BagOfWords) else "gru.weight_hh_l0"].shape[-1]
    graph = helper.make_graph(
        nodes + unit_nodes,
        "caption",
        [
            helper.make_tensor_value_info("words", TensorProto.INT64, ["M", "L"]),
            helper.make_tensor_value_info("lengths", TensorProto.INT64, ["M"]),
        ],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["M", dim])],
        [numpy_helper.from_array(a, name) for name, a in (constants | unit_constants).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 10  # what onnxruntime of two years ago still reads
    onnx.checker.check_model(model)
    _save(model, weights, "caption.onnx")


def _gru_nodes(
    encoder: CaptionEncoder, tensors: dict[str, np.ndarray]
) -> tuple[Nodes, Constants, str]:
    """The state after the last word, mapped by W_g where there is one; and its name."""
    nodes, constants = _gates(tensors)
    constants |= {"word_table": tensors["words.weight"], "first": np.array([0], dtype=np.int64)}
    nodes += [
        helper.make_node("Gather", ["word_table", "words"], ["embedded"]),
        helper.make_node("Transpose", ["embedded"], ["by_time"], perm=[1, 0, 2]),
        helper.make_node("Cast", ["lengths"], ["short_lengths"], to=TensorProto.INT32),
        helper.make_node("Unsqueeze", ["weight_ih", "first"], ["W"]),
        helper.make_node("Unsqueeze", ["weight_hh", "first"], ["R"]),
        helper.make_node("Concat", ["bias_ih", "bias_hh"], ["bias"], axis=0),
        helper.make_node("Unsqueeze", ["bias", "first"], ["B"]),
        helper.make_node(
            "GRU",
            ["by_time", "W", "R", "B", "short_lengths"],
            ["", "states"],
            hidden_size=encoder.gru.hidden_size,
            linear_before_reset=1,
        ),
        helper.make_node("Squeeze", ["states", "first"], ["state"]),
    ]
    if encoder.linear is None:
        return nodes, constants, "state"
    constants |= {"W_g": tensors["linear.weight"], "b_g": tensors["linear.bias"]}
    nodes.append(helper.make_node("Gemm", ["state", "W_g", "b_g"], ["projected"], transB=1))
    return nodes, constants, "projected"


def _gates(tensors: dict[str, np.ndarray]) -> tuple[Nodes, Constants]:
    """Torch stacks the gates reset, update, new; ONNX wants update, reset, new.

    The three are contiguous parts of one stored tensor, joined anew when the graph is loaded.
    """
    nodes: Nodes = []
    constants: Constants = {}
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        reset, update, new = np.split(tensors[f"gru.{kind}_l0"], 3)
        parts = {f"{kind}_update": update, f"{kind}_reset": reset, f"{kind}_new": new}
        constants |= parts
        nodes.append(helper.make_node("Concat", list(parts), [kind], axis=0))
    return nodes, constants


def _bag_nodes(tensors: dict[str, np.ndarray]) -> tuple[Nodes, Constants, str]:
    """The mean of the words' vectors; and its name."""
    constants = {
        "word_table": tensors["words.weight"],
        "bias": tensors["bias"],
        "zero": np.array(0, dtype=np.int64),
        "one": np.array(1, dtype=np.int64),
        "middle": np.array([1], dtype=np.int64),
        "end": np.array([-1], dtype=np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["word_table", "words"], ["embedded"]),
        helper.make_node("Shape", ["words"], ["width"], start=1, end=2),
        helper.make_node("Squeeze", ["width"], ["num_places"]),
        helper.make_node("Range", ["zero", "num_places", "one"], ["places"]),
        helper.make_node("Unsqueeze", ["lengths", "end"], ["column"]),
        helper.make_node("Less", ["places", "column"], ["is_word"]),
        helper.make_node("Cast", ["is_word"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "end"], ["deep_mask"]),
        helper.make_node("Mul", ["embedded", "deep_mask"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "middle"], ["total"], keepdims=0),
        helper.make_node("Cast", ["column"], ["counts"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["total", "counts"], ["mean"]),
        helper.make_node("Add", ["mean", "bias"], ["moved"]),
    ]
    return nodes, constants, "moved"


def _unit_nodes(raw: str, absolute: bool) -> tuple[Nodes, Constants]:
    """Onto the unit hypersphere, and to absolute values where the model takes them."""
    constants: Constants = {
        "epsilon": np.array(EPSILON, dtype=np.float32),
        "last": np.array([-1], dtype=np.int64),
    }
    nodes = [
        helper.make_node("ReduceL2", [raw, "last"], ["norm"]),
        helper.make_node("Max", ["norm", "epsilon"], ["safe_norm"]),
        helper.make_node("Div", [raw, "safe_norm"], ["unit" if absolute else "vectors"]),
    ]
    if absolute:
        nodes.append(helper.make_node("Abs", ["unit"], ["vectors"]))
    return nodes, constants


def _save(model: onnx.ModelProto, weights: Path, name: str) -> None:
    """Write a graph whose large constants are places in the weights' file."""
    content = weights.read_bytes()
    starts = _tensor_places(content)
    for constant in model.graph.initializer:
        array = numpy_helper.to_array(constant)
        place = _find(array, content, starts) if array.nbytes >= SMALL else None
        if place is not None:
            constant.ClearField("raw_data")
            constant.ClearField("float_data")
            constant.data_location = TensorProto.EXTERNAL
            entries = {"location": weights.name, "offset": place, "length": array.nbytes}
            del constant.external_data[:]
            for key, value in entries.items():
                constant.external_data.add(key=key, value=str(value))
    (weights.parent / name).write_bytes(model.SerializeToString())


def _tensor_places(content: bytes) -> list[tuple[int, int]]:
    """Where each tensor of a safetensors file begins and ends."""
    header_size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + header_size])
    base = 8 + header_size
    return [
        (base + entry["data_offsets"][0], base + entry["data_offsets"][1])
        for name, entry in header.items()
        if name != "__metadata__"
    ]


def _find(array: np.ndarray, content: bytes, places: list[tuple[int, int]]) -> int | None:
    """The place of these very bytes: a whole tensor, or one of the three gates of a GRU's."""
    wanted = np.ascontiguousarray(array).tobytes()
    for start, end in places:
        if end - start == len(wanted) or end - start == 3 * len(wanted):
            for offset in range(start, end, len(wanted)):
                if content[offset : offset + len(wanted)] == wanted:
                    return offset
    return None
