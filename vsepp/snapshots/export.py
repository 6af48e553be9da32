"""Exports a snapshot's encoders to ONNX: image.onnx and caption.onnx.

Both read their weights from the snapshot's model.safetensors, so every weight is stored once.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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

OPSET = 18
MIN_EXTERNAL = 256  # bytes; smaller constants stay inside the graph


def export_images(encoder: ImageEncoder, plan: Architecture, weights: Path) -> None:
    """image.onnx: images uint8 (M, 3, S, S) -> vectors float32 (M, D).

    A model of ten crops takes (M, 10, 3, S, S), one of features float32 (M, D_phi).
    """
    was_training = encoder.training
    device = next(encoder.parameters()).device
    example = _example(encoder, plan)
    with _channels_first(encoder), warnings.catch_warnings():
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
    casts = []
    for constant in model.graph.initializer:
        array = numpy_helper.to_array(constant)
        if array.nbytes < MIN_EXTERNAL:
            continue
        place = _find(array, content, starts)
        if place is None and _is_exact_in_half(array):
            place, array = (
                _find(array.astype(np.float16), content, starts),
                array.astype(np.float16),
            )
            if place is not None:
                # onnxruntime does this once, when it loads the graph.
                casts.append(_store_as_half(constant))
        if place is not None:
            _make_external(
                constant, {"location": weights.name, "offset": place, "length": array.nbytes}
            )
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    _strip_metadata(model)
    (weights.parent / name).write_bytes(model.SerializeToString())


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


def _store_as_half(constant: onnx.TensorProto) -> onnx.NodeProto:
    """Turn a constant into half precision, and return the node that casts it back."""
    name = constant.name
    constant.name, constant.data_type = f"{name}.half", TensorProto.FLOAT16
    return helper.make_node("Cast", [constant.name], [name], to=TensorProto.FLOAT)


def _make_external(constant: onnx.TensorProto, entries: dict[str, object]) -> None:
    """Make a constant external data."""
    constant.ClearField("raw_data")
    constant.ClearField("float_data")
    constant.data_location = TensorProto.EXTERNAL
    del constant.external_data[:]
    for key, value in entries.items():
        constant.external_data.add(key=key, value=str(value))


def _tensor_ranges(content: bytes) -> list[tuple[int, int]]:
    """Start and end of each tensor in a safetensors file."""
    header_size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + header_size])
    base = 8 + header_size
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
