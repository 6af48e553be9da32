"""Exports a snapshot's encoders to ONNX: image.onnx and caption.onnx.

Both read their weights from the snapshot's model.safetensors, so every weight is stored once.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxscript.optimizer import fold_constants, remove_unused_nodes
from torch import nn

from vsepp.encoders.architecture import Architecture
from vsepp.encoders.caption import CaptionEncoder
from vsepp.encoders.joint import ImageEncoder
from vsepp.snapshots.caption_graph import caption_graph
from vsepp.snapshots.int8_graph import Int8Matrix, multiply_in_int8, restore_from_int8
from vsepp.snapshots.quantized import dequantize, quantize

OPSET = 18
IMAGE_OPSET = 20  # has Gelu as one node; without it TinyViT takes a quarter longer
MIN_EXTERNAL = 256  # bytes; smaller constants stay inside the graph


def export_images(encoder: ImageEncoder, plan: Architecture, weights: Path) -> None:
    """image.onnx: images uint8 (M, 3, S, S) -> vectors float32 (M, D).

    A model of ten crops takes (M, 10, 3, S, S), one of features float32 (M, D_phi). A net whose matrices are stored in
    8 bits takes one image at a time (M = 1).
    """
    was_training = encoder.training
    device = next(encoder.parameters()).device
    example = _example(encoder, plan)
    one_at_a_time = _has_matrices_in_int8(weights)
    with _channels_first(encoder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            encoder.cpu().eval(),
            (example[:1] if one_at_a_time else example,),
            dynamo=True,
            verbose=False,
            optimize=False,  # or batch norms would be folded into second copies of the weights
            opset_version=IMAGE_OPSET,
            input_names=["images"],
            output_names=["vectors"],
            dynamic_shapes=None if one_at_a_time else ({0: torch.export.Dim("M")},),
        )
    encoder.to(device).train(was_training)
    assert program is not None  # export() returns None only in its older form
    # Constants that are computed in the graph (a bias of zeros, the ends of a clip) would keep onnxruntime
    # from fusing convolutions with what follows them: EfficientNet-Lite0 took three times as long.
    fold_constants(program.model)
    remove_unused_nodes(program.model)
    _save(program.model_proto, weights, "image.onnx")


@contextmanager
def _channels_first(net: nn.Module) -> Iterator[None]:
    """Without channels-last: the exporter would gather the features of every image one by one."""
    last = any(w.dim() == 4 and not w.is_contiguous() for w in net.parameters())
    net.to(memory_format=torch.contiguous_format)
    try:
        yield
    finally:
        if last:
            net.to(memory_format=torch.channels_last)


def _example(encoder: ImageEncoder, plan: Architecture) -> torch.Tensor:
    if plan.takes_features:
        return torch.zeros(2, encoder.backbone.num_features)
    crops = (plan.crops,) if plan.crops > 1 else ()
    return torch.zeros(2, *crops, 3, plan.size, plan.size, dtype=torch.uint8)


def export_captions(encoder: CaptionEncoder, weights: Path) -> None:
    """caption.onnx: words int64 (M, L), lengths int64 (M,) -> vectors float32 (M, D)."""
    graph = caption_graph(encoder)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 10  # readable by onnxruntime of two years ago
    onnx.checker.check_model(model)
    _save(model, weights, "caption.onnx")


def _save(model: onnx.ModelProto, weights: Path, name: str) -> None:
    """Write a graph whose large constants are read from the weights' file."""
    content = weights.read_bytes()
    starts = _tensor_ranges(content)
    _lift_constants(model.graph)
    restoring, in_int8 = [], {}
    for constant in list(model.graph.initializer):
        array, tensor = numpy_helper.to_array(constant), constant.name
        if array.nbytes < MIN_EXTERNAL:
            continue
        found = _find_in_any_form(array, content, starts)
        if found is not None:
            stored, offset, is_transposed = found
            # onnxruntime runs these nodes once, when it loads the graph.
            restoring += _replace_by_stored(constant, stored, is_transposed)
            _make_external(constant, weights.name, offset, stored.nbytes)
        elif (matrix := _find_in_int8(array, content, starts)) is not None:
            scales = model.graph.initializer.add()
            in_int8[tensor] = _replace_by_int8(constant, scales, matrix)
            _make_external(constant, weights.name, matrix.numbers, array.size)
            _make_external(scales, weights.name, matrix.scales, 4 * matrix.rows)
    nodes = multiply_in_int8(model.graph.node, in_int8)
    used = {tensor for node in nodes for tensor in node.input}
    restoring += [
        node for name in in_int8 if name in used for node in restore_from_int8(name, in_int8[name])
    ]
    del model.graph.node[:]
    model.graph.node.extend([*restoring, *nodes])
    _strip_metadata(model)
    (weights.parent / name).write_bytes(model.SerializeToString())


def _lift_constants(graph: onnx.GraphProto) -> None:
    """Large constants of nodes beside the others: torch 2.10 folds transposed weights into nodes."""
    large = [
        node
        for node in graph.node
        if node.op_type == "Constant" and len(node.attribute[0].t.raw_data) >= MIN_EXTERNAL
    ]
    for node in large:
        constant = graph.initializer.add()
        constant.CopyFrom(node.attribute[0].t)
        constant.name = node.output[0]
        graph.node.remove(node)


def _strip_metadata(model: onnx.ModelProto) -> None:
    """Source locations: 20 kB per node, with paths of the machine that exported it."""
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output):
        del part.metadata_props[:]
    for node in graph.node:
        node.doc_string = ""


def _is_exact_in_half(array: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return array.dtype == np.float32 and bool((array.astype(np.float16) == array).all())


def _find_in_any_form(
    array: np.ndarray, content: bytes, ranges: list[tuple[int, int]]
) -> tuple[np.ndarray, int, bool] | None:
    """A constant as the file stores it, its offset, and whether it is transposed, as a linear map's weights are."""
    is_exact = _is_exact_in_half(array)
    for is_transposed in (False, True) if array.ndim == 2 else (False,):
        stored = array.T if is_transposed else array
        for form in (stored, stored.astype(np.float16)) if is_exact else (stored,):
            offset = _find(form, content, ranges)
            if offset is not None:
                return form, offset, is_transposed
    return None


def _replace_by_stored(
    constant: onnx.TensorProto, stored: np.ndarray, is_transposed: bool
) -> list[onnx.NodeProto]:
    """Give a constant the type and shape that are stored; returns the nodes that restore the original."""
    steps: list[tuple[str, str, dict[str, object]]] = []
    if stored.dtype == np.float16:
        steps.append(("half", "Cast", {"to": TensorProto.FLOAT}))
    if is_transposed:
        steps.append(("transposed", "Transpose", {"perm": [1, 0]}))
    names = [*(f"{constant.name}.{suffix}" for suffix, _, _ in steps), constant.name]
    constant.name = names[0]
    constant.data_type = helper.np_dtype_to_tensor_dtype(stored.dtype)
    del constant.dims[:]
    constant.dims.extend(stored.shape)
    return [
        helper.make_node(kind, [before], [after], **keys)
        for (_, kind, keys), before, after in zip(steps, names[:-1], names[1:], strict=True)
    ]


@dataclass(frozen=True)
class _Place:
    """A matrix in 8 bits: the offsets of its numbers and scales, and whether the graph has it transposed."""

    numbers: int
    scales: int
    rows: int
    is_transposed: bool


def _find_in_int8(
    array: np.ndarray, content: bytes, ranges: list[tuple[int, int]]
) -> _Place | None:
    if array.ndim != 2 or array.dtype != np.float32 or not np.isfinite(array).all():
        return None
    for is_transposed in (False, True):
        parts = quantize(torch.from_numpy((array.T if is_transposed else array).copy()))
        exact = dequantize(*parts).numpy()
        if not np.array_equal(exact.T if is_transposed else exact, array):
            continue
        numbers, scales = (_find(part.numpy(), content, ranges) for part in parts)
        if numbers is not None and scales is not None:
            return _Place(numbers, scales, len(parts[1]), is_transposed)
    return None


def _replace_by_int8(
    constant: onnx.TensorProto, scales: onnx.TensorProto, place: _Place
) -> Int8Matrix:
    """Give a constant 8 bits and the shape that is stored, and the scales of its rows theirs."""
    name, columns = constant.name, numpy_helper.to_array(constant).size // place.rows
    constant.name, constant.data_type = f"{name}.int8", TensorProto.INT8
    del constant.dims[:]
    constant.dims.extend([place.rows, columns])
    scales.name, scales.data_type = f"{name}.scales", TensorProto.FLOAT
    scales.dims.extend([place.rows])
    return Int8Matrix(constant.name, scales.name, place.is_transposed)


def _make_external(constant: onnx.TensorProto, file: str, offset: int, length: int) -> None:
    """Make a constant external data."""
    constant.ClearField("raw_data")
    constant.ClearField("float_data")
    constant.data_location = TensorProto.EXTERNAL
    del constant.external_data[:]
    for key, value in {"location": file, "offset": offset, "length": length}.items():
        constant.external_data.add(key=key, value=str(value))


def _has_matrices_in_int8(weights: Path) -> bool:
    """Of the net, not of the captions alone."""
    header = _header(weights.read_bytes())[0]
    net = (entry for name, entry in header.items() if name.startswith("image_encoder."))
    return any(entry["dtype"] == "I8" for entry in net)


def _header(content: bytes) -> tuple[dict[str, Any], int]:
    """What a safetensors file says of its tensors, and where their bytes begin."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), 8 + size


def _tensor_ranges(content: bytes) -> list[tuple[int, int]]:
    """Start and end of each tensor in a safetensors file."""
    header, base = _header(content)
    return [
        (base + entry["data_offsets"][0], base + entry["data_offsets"][1])
        for name, entry in header.items()
        if name != "__metadata__"
    ]


def _find(array: np.ndarray, content: bytes, places: list[tuple[int, int]]) -> int | None:
    """The offset of exactly these bytes: a whole tensor, or one of the three gates of a GRU."""
    wanted = np.ascontiguousarray(array).tobytes()
    for start, end in places:
        if end - start == len(wanted) or end - start == 3 * len(wanted):
            for offset in range(start, end, len(wanted)):
                if content[offset : offset + len(wanted)] == wanted:
                    return offset
    return None
