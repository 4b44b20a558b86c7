"""ONNX: the layers of a file from its graph alone. Shapes are inferred, weights stay in the file, nothing is run."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any

from calibrate.layers.folding import inferred, shapes
from calibrate.layers.work import Facts, LayerWork, Product
from calibrate.zoo.built import refuse
from calibrate.zoo.sources import ZooError, file_of, installed
from simulator.world.signature import FLOAT32, Signature, WeightShape, sizes

VIEWS = ("Constant", "Dropout", "Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze")
"""Nodes that move nothing."""
CONTROL = ("If", "Loop", "Scan")
"""Nodes whose work the graph does not say."""
GEOMETRY = {
    "kernel_shape": "kernel_size",
    "strides": "stride",
    "pads": "padding",
    "dilations": "dilation",
    "group": "groups",
    "num_heads": "num_heads",
}
"""Attributes that a signature names, as PyTorch calls them."""
STATISTICS = {"BatchNormalization": (3, 4)}
"""Inputs of a node that training does not change."""
RECURRENT = ("GRU", "LSTM", "RNN")
CONVOLUTIONS = {"Conv": 1, "ConvTranspose": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Which input of a node holds the kernel."""
MATRICES = {"Gemm": (0, 1), "MatMul": (0, 1), "MatMulInteger": (0, 1), "QGemm": (0, 3), "QLinearMatMul": (0, 3)}
"""Which inputs of a node are multiplied."""
WEIGHTS_MIN = 16
"""Numbers of a constant that is a weight: fewer are a shape, axes, or a scale."""
VALUE_BYTES = 4
"""Of a number, whatever the file keeps it in: facts are of 4-byte floats."""


@dataclass(frozen=True)
class OnnxGraph:
    """A graph with the shape of every value."""

    nodes: Sequence[Any]
    shapes: Mapping[str, tuple[int, ...]]
    weights: Mapping[str, str]
    """Type of the numbers of each weight."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def numbers(self, name: str) -> int:
        """How many numbers a value holds."""
        return prod(self.shapes.get(name, (0,)))

    def size_bytes(self, names: Iterable[str]) -> int:
        """Of values that are no weights."""
        return VALUE_BYTES * sum(self.numbers(name) for name in names if name not in self.weights)


def read(model: str, shape: tuple[int, ...] | None) -> Facts:
    """The layers of `onnx:file.onnx`, for one sample; ZooError where the file does not say them."""
    versions = installed(model)
    graph = _graph(model, shape)
    layers = tuple(_layers(model, graph))
    return Facts(
        model=model,
        input_shape=graph.shapes[graph.inputs[0]][1:],
        fixed="its input is the file's",
        layers=layers,
        input_bytes_per_sample=graph.size_bytes(graph.inputs),
        output_bytes_per_sample=graph.size_bytes(graph.outputs),
        activation_bytes_per_sample=sum(layer.made_bytes for layer in layers),
        peak_activation_bytes_per_sample=_peak_bytes(graph),
        made_with=versions,
    )


# The graph


def _loaded(model: str) -> Any:
    """What the file holds, without weights that lie beside it."""
    import onnx

    path = file_of(model)
    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as error:
        refuse(f"{model}: is no ONNX file, or a damaged one", error, "Export it again")


def _with_shapes(model: str, loaded: Any) -> Any:
    """The same with the shapes of all it computes."""
    try:
        return inferred(loaded)
    except Exception as error:
        refuse(f"{model}: shapes cannot be inferred", error, "Export it again, or simplify it with onnxsim")


def _graph(model: str, shape: tuple[int, ...] | None) -> OnnxGraph:
    import onnx

    loaded = _loaded(model)
    weights = {weight.name: weight for weight in chain(loaded.graph.initializer, _constants(loaded.graph.node))}
    given = [value for value in loaded.graph.input if value.name not in weights]
    if not given:
        raise ZooError(f"{model}: its graph reads nothing. Export it again.")
    _make_one_sample(model, given[0], shape)
    for value in given[1:]:
        _make_one_sample(model, value, None)
    loaded = _with_shapes(model, loaded)
    names = onnx.TensorProto.DataType.Name
    return OnnxGraph(
        nodes=loaded.graph.node,
        shapes=shapes(loaded.graph) | {name: tuple(weight.dims) for name, weight in weights.items()},
        weights={name: names(weight.data_type).lower() for name, weight in weights.items()},
        inputs=tuple(value.name for value in given),
        outputs=tuple(value.name for value in loaded.graph.output),
    )


def _constants(nodes: Iterable[Any]) -> Iterator[Any]:
    """Tensors that exporters write as nodes, but for small ones: shapes, axes and scales are no weights."""
    for node in nodes:
        held = (one.t for one in node.attribute if node.op_type == "Constant" and one.name == "value")
        for tensor in held:
            if prod(tensor.dims) >= WEIGHTS_MIN:
                yield type(tensor)(name=node.output[0], dims=tensor.dims, data_type=tensor.data_type)


def _make_one_sample(model: str, value: Any, shape: tuple[int, ...] | None) -> None:
    """Set the shape of an input: a batch of 1, and what is not fixed in the file as it is asked for."""
    sides = list(value.type.tensor_type.shape.dim)
    wanted = (1, *shape) if shape else (1, *(side.dim_value for side in sides[1:]))
    if not sides:
        raise ZooError(f"{model}: input {value.name} has no batch. Export it with one.")
    if len(wanted) != len(sides):
        raise ZooError(f"{model}: input {value.name} has {len(sides) - 1} sizes a sample, got {sizes(wanted[1:])}.")
    batch, *_ = (_fixed(side) for side in sides)
    if batch not in (0, 1):
        raise ZooError(f"{model}: its batch is fixed at {batch}. Export it with a batch of 1, or a free one.")
    for side, size in zip(sides, wanted, strict=True):
        side.dim_value = _size_of(side, size, model, value.name)


def _size_of(side: Any, wanted: int, model: str, name: str) -> int:
    """The size of a side: as it is fixed in the file, else as it is asked for. ZooError where it is neither, or two."""
    fixed = _fixed(side)
    if not (fixed or wanted):
        raise ZooError(f"{model}: the shape of input {name} is not fixed. Write it, e.g. 3x224x224.")
    if fixed and wanted != fixed:
        raise ZooError(f"{model}: input {name} is fixed at {fixed} where {wanted} was asked for. Write that.")
    return fixed or wanted


def _fixed(side: Any) -> int:
    """Its size in the file; 0 where it is free."""
    return max(0, side.dim_value) if side.HasField("dim_value") else 0


# Its layers


def _layers(model: str, graph: OnnxGraph) -> Iterator[LayerWork]:
    taken: set[str] = set()
    names: dict[str, int] = {}
    for node in graph.nodes:
        if node.op_type in CONTROL:
            raise ZooError(f"{model}: {node.op_type} nodes are not known here. Export it without control flow.")
        if node.op_type == "Constant":
            continue
        if unknown := [out for out in node.output if out and out not in graph.shapes]:
            remedy = "Write its whole input, or simplify it with onnxsim"
            raise ZooError(f"{model}: the shape of {unknown[0]} cannot be inferred. {remedy}.")
        name = node.name or node.output[0]
        names[name] = names.get(name, 0) + 1
        yield _layer(name if names[name] == 1 else f"{name}.{names[name]}", node, graph, taken)


def _layer(name: str, node: Any, graph: OnnxGraph, taken: set[str]) -> LayerWork:
    held = [value for value in node.input if value in graph.weights]
    own = [value for value in held if value not in taken]
    taken.update(own)
    statistics = {node.input[i] for i in STATISTICS.get(node.op_type, ()) if i < len(node.input)}
    products = tuple(_products(node, graph))
    return LayerWork(
        name=name,
        type=node.op_type,
        signature=_signature(node, own, graph),
        params=sum(graph.numbers(value) for value in own if value not in statistics),
        weight_bytes=VALUE_BYTES * sum(map(graph.numbers, own)),
        flops=2 * sum(product.macs for product in products),
        input_bytes=graph.size_bytes(node.input),
        output_bytes=graph.size_bytes(node.output),
        calls=1,
        products=products,
        **_traffic(node, graph, held),
    )


def _traffic(node: Any, graph: OnnxGraph, weights: Sequence[str]) -> dict[str, int]:
    """What a node reads and writes on the device: nothing of a view; of a gathering, as much read as written, and of no
    weight all."""
    if node.op_type in VIEWS:
        return {"kernels": 0, "moved_bytes": 0, "made_bytes": 0, "weights_read_bytes": 0}
    put_out = graph.size_bytes(node.output)
    of_weights = VALUE_BYTES * sum(map(graph.numbers, weights))
    moved, read = graph.size_bytes(node.input) + put_out, of_weights
    if node.op_type in ("Gather", "GatherND", "GatherElements"):
        moved, read = 2 * put_out, 0
    return {"kernels": 1, "moved_bytes": moved, "made_bytes": put_out, "weights_read_bytes": read}


def _signature(node: Any, weights: Sequence[str], graph: OnnxGraph) -> Signature:
    named = {attribute.name: attribute for attribute in node.attribute}
    geometry = tuple(
        (ours, sizes(named[theirs].ints) or str(named[theirs].i))
        for theirs, ours in GEOMETRY.items()
        if theirs in named
    )
    listed = tuple(
        WeightShape("weight" if i == 0 else f"weight{i}", graph.shapes[value] or (1,), _type(graph.weights[value]))
        for i, value in enumerate(weights)
    )
    return Signature(node.op_type, geometry, listed)


def _type(written: str) -> str:
    return FLOAT32 if written == "float" else written


def _products(node: Any, graph: OnnxGraph) -> Iterator[Product]:
    if node.op_type in CONVOLUTIONS:
        yield _convolution(node, graph)
    elif node.op_type in MATRICES:
        yield _matrix(node, graph)
    elif node.op_type in RECURRENT:
        steps = graph.shapes[node.input[0]][0]
        for value in node.input[1:3]:
            directions, columns, inner = graph.shapes[value]
            yield Product(steps, inner, columns, directions)


def _convolution(node: Any, graph: OnnxGraph) -> Product:
    """Weights are out x in/groups x kernel; of a transposed one, in x out/groups x kernel."""
    outputs, inner, *kernel = graph.shapes[node.input[CONVOLUTIONS[node.op_type]]]
    groups = next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)
    if node.op_type == "ConvTranspose":
        places = prod(graph.shapes[node.input[0]][2:])
        return Product(places, outputs // groups, inner * prod(kernel), groups)
    return Product(prod(graph.shapes[node.output[0]][2:]), inner * prod(kernel), outputs // groups, groups)


def _matrix(node: Any, graph: OnnxGraph) -> Product:
    left, right = (graph.shapes[node.input[i]] for i in MATRICES[node.op_type])
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    *outer, rows, inner = (1, *left) if len(left) == 1 else left
    columns = right[-1] if len(right) > 1 else 1
    if flags.get("transA"):
        rows, inner = inner, rows
    if flags.get("transB"):
        columns = right[-2]
    if node.input[MATRICES[node.op_type][1]] in graph.weights and len(right) <= 2:
        return Product(rows * prod(outer), inner, columns)
    return Product(rows, inner, columns, max(prod(outer), prod(right[:-2])), batched=True)


def _peak_bytes(graph: OnnxGraph) -> int:
    """The most that activations hold at once, each from where it is written to where it is read last."""
    uses = Counter(chain(graph.outputs, *(node.input for node in graph.nodes)))
    held = {value: graph.size_bytes([value]) for value in graph.inputs}
    peak_bytes = sum(held.values())
    for node in graph.nodes:
        uses.subtract(node.input)
        over = [value for value in node.input if uses[value] <= 0]
        if node.op_type in VIEWS:  # the same memory under another name
            held = {value: size for value, size in held.items() if value not in over}
        held |= {value: graph.size_bytes([value]) for value in node.output if value}
        peak_bytes = max(peak_bytes, sum(held.values()))
        for value in over:
            held.pop(value, None)
    return peak_bytes
