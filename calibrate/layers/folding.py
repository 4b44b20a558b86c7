"""Folding: shapes that an ONNX graph computes as it runs follow from its input, and are known before."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBERS_MAX = 16
"""Of a value that may be a shape, axes or a scale; more are weights or activations."""
DRAWN = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
"""Nodes whose values differ from run to run."""


def inferred(model: Any) -> Any:
    """The model with the shapes of its values, as far as they follow from the shapes of its inputs.

    A node whose inputs are all known is computed and becomes a constant, from which more shapes may follow.
    """
    from onnx import shape_inference

    for value in model.graph.output:
        for side in value.type.tensor_type.shape.dim:
            if side.dim_value < 0:  # as some exporters write what is free
                side.Clear()
    while True:
        model = shape_inference.infer_shapes(model, data_prop=True)
        known = shapes(model.graph)
        if all(output in known for node in model.graph.node for output in node.output if output) or not _fold(model):
            return model


def shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each value where all its sizes are known."""
    values = (*graph.input, *graph.value_info, *graph.output)
    found = {value.name: _sizes(value.type.tensor_type) for value in values}
    return {name: sizes for name, sizes in found.items() if sizes is not None}


def _sizes(tensor: Any) -> tuple[int, ...] | None:
    if not tensor.HasField("shape"):
        return None
    sides = tensor.shape.dim
    return tuple(side.dim_value for side in sides) if all(side.HasField("dim_value") for side in sides) else None


def _fold(model: Any) -> bool:
    """Put constants where small values are known by now; False: nowhere."""
    from onnx import helper, numpy_helper

    computed = dict(_computed(model))
    nodes = [node for node in model.graph.node if node.op_type != "Constant" and node.output[0] in computed]
    for node in nodes:
        name = node.output[0]
        node.CopyFrom(
            helper.make_node("Constant", [], [name], node.name, value=numpy_helper.from_array(computed[name]))
        )
    return bool(nodes)


def _value_of(
    node: Any, model: Any, sizes: Mapping[str, tuple[int, ...]], known: Mapping[str, NDArray[Any]]
) -> NDArray[Any] | None:
    """What a node gives; None where that depends on what is put in."""
    if node.op_type == "Shape" and node.input[0] in sizes:
        return _shape_of(node, sizes[node.input[0]])
    if len(node.output) == 1 and all(name in known for name in node.input if name):
        return _run(model, node, known)
    return None


def _computed(model: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Small values that do not depend on what is put in, but on its shape."""
    from onnx import numpy_helper
    from onnx.external_data_helper import uses_external_data

    small = [one for one in model.graph.initializer if prod(one.dims) <= NUMBERS_MAX]
    known = {one.name: numpy_helper.to_array(one) for one in small if not uses_external_data(one)}
    sizes = shapes(model.graph)
    for node in model.graph.node:
        value = _value_of(node, model, sizes, known)
        if value is not None and value.size <= NUMBERS_MAX:
            known[node.output[0]] = value
            yield node.output[0], value


def _shape_of(node: Any, sizes: tuple[int, ...]) -> NDArray[Any]:
    ends = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(sizes[ends.get("start") : ends.get("end")], dtype=np.int64)


def _run(model: Any, node: Any, known: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """What one node makes of known values; None where that cannot be said."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    if node.op_type in DRAWN:
        return None
    given = [helper.make_tensor_value_info(name, 0, None) for name in node.input if name]
    put_out = [helper.make_tensor_value_info(node.output[0], 0, None)]
    alone = helper.make_graph([node], "node", given, put_out)
    opsets = {one.domain: one.version for one in model.opset_import}
    try:
        (value,) = ReferenceEvaluator(alone, opsets).run(None, {name: known[name] for name in node.input if name})
    except Exception:  # onnx's own evaluator does not know every node, nor every version of one
        return None
    return np.asarray(value)
