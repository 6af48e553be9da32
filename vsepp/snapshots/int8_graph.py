"""Nodes of ONNX graphs for matrices that are stored in 8 bits, a scale for each row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper


@dataclass(frozen=True)
class Int8Matrix:
    """Names of its numbers (W, E) and scales (W,), and whether the graph wants it transposed."""

    numbers: str
    scales: str
    is_transposed: bool


def restore_from_int8(name: str, matrix: Int8Matrix) -> list[onnx.NodeProto]:
    """The float matrix `name`; onnxruntime runs these nodes once, when it loads the graph.

    Not DequantizeLinear: onnxruntime would run it with every query, and take seven times as long.
    """
    unscaled, rows, wide = (f"{name}.{suffix}" for suffix in ("unscaled", "rows", "column"))
    nodes = [
        helper.make_node("Cast", [matrix.numbers], [unscaled], to=TensorProto.FLOAT),
        _constant(f"{name}.axis", [1]),
        helper.make_node("Unsqueeze", [matrix.scales, f"{name}.axis"], [wide]),
        helper.make_node("Mul", [unscaled, wide], [rows if matrix.is_transposed else name]),
    ]
    if matrix.is_transposed:
        nodes.append(helper.make_node("Transpose", [rows], [name], perm=[1, 0]))
    return nodes


def multiply_in_int8(
    nodes: Iterable[onnx.NodeProto], matrices: Mapping[str, Int8Matrix]
) -> list[onnx.NodeProto]:
    """The same nodes, where products with these matrices are computed in whole numbers.

    Processors with instructions for that take less than half of the time. The other factor is rounded by one scale
    for the whole batch, so a graph of such products is made for one image at a time: otherwise the vector of an
    image would depend on its neighbours. onnxruntime runs each of these groups as one node.
    """
    products: list[onnx.NodeProto] = []
    for node in nodes:
        matrix = matrices.get(node.input[1]) if node.op_type == "MatMul" else None
        products += _integer_product(node, matrix) if matrix and matrix.is_transposed else [node]
    return products


def _integer_product(node: onnx.NodeProto, matrix: Int8Matrix) -> list[onnx.NodeProto]:
    name = node.output[0]
    rounded = [f"{name}.{suffix}" for suffix in ("int8", "scale", "zero")]
    factor, total, unscaled, scale = (
        f"{name}.{suffix}" for suffix in ("factor", "total", "unscaled", "scales")
    )
    return [
        helper.make_node("DynamicQuantizeLinear", [node.input[0]], rounded),
        helper.make_node("Transpose", [matrix.numbers], [factor], perm=[1, 0]),
        helper.make_node("MatMulInteger", [rounded[0], factor, rounded[2]], [total]),
        helper.make_node("Cast", [total], [unscaled], to=TensorProto.FLOAT),
        helper.make_node("Mul", [rounded[1], matrix.scales], [scale]),
        helper.make_node("Mul", [unscaled, scale], [name]),
    ]


def _constant(name: str, numbers: list[int]) -> onnx.NodeProto:
    tensor = helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)
    return helper.make_node("Constant", [], [name], value=tensor)
