"""The layers of ONNX files: against figures worked by hand, and one clear line for what cannot be read."""

import sys

import numpy as np
import pytest
from support.forks import forking

from calibrate.layers.work import Product
from calibrate.zoo.sources import ZooError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from calibrate.layers import onnx_graph  # noqa: E402


def weight(name, *shape):
    count = 1
    for size in shape:
        count *= size
    return helper.make_tensor(name, TensorProto.FLOAT, shape, [0.5] * count)


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


@pytest.fixture
def save(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def saved(nodes, given, put_out, weights=()):
        graph = helper.make_graph(nodes, "g", given, put_out, initializer=list(weights))
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(tmp_path / "m.onnx"))
        return "onnx:m.onnx"

    return saved


@pytest.fixture
def network(save):
    """Convolution, ReLU, flatten, linear layer; `batch` is free."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Flatten", ["r"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "v"], ["y"], name="fc", transB=1),
    ]
    weights = [weight("w", 8, 3, 3, 3), weight("b", 8), weight("v", 10, 8 * 64)]
    return save(nodes, [value("x", "batch", 3, "h", "w_")], [value("y", "batch", 10)], weights)


def test_shapes_that_are_computed_as_it_runs_follow_from_the_input(save):
    """PP-OCR's recognizer flattens rows and columns so: its reshape's target holds the batch, which is read and cut."""
    numbers = {"zero": [0], "one": [1], "rest": [-1]}
    nodes = [
        helper.make_node("Shape", ["x"], ["all"]),
        helper.make_node("Cast", ["all"], ["whole"], to=TensorProto.INT32),
        helper.make_node("Slice", ["whole", "zero", "one"], ["batch"]),
        helper.make_node("Cast", ["batch"], ["count"], to=TensorProto.INT64),
        helper.make_node("Concat", ["count", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"]),
    ]
    constants = [helper.make_tensor(name, TensorProto.INT64, [1], held) for name, held in numbers.items()]
    model = save(nodes, [value("x", -1, 4, "?", "?")], [value("y", -1, 10)], [*constants, weight("w", 4 * 6 * 5, 10)])
    found = onnx_graph.read(model, (4, 6, 5))
    assert found.layers[-1].products == (Product(1, 4 * 6 * 5, 10),)
    assert found.output_bytes_per_sample == 4 * 10


def test_a_shape_that_follows_from_values_is_refused(save):
    nodes = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Transpose", ["places"], ["y"])]
    with pytest.raises(ZooError, match="the shape of places cannot be inferred"):
        onnx_graph.read(save(nodes, [value("x", 1, 4)], [value("y", "n", 2)]), None)


def test_layers_worked_by_hand(network):
    found = onnx_graph.read(network, (3, 8, 8))
    conv, relu, flat, fc = found.layers
    assert found.input_shape == (3, 8, 8)
    assert conv.products == (Product(64, 27, 8),)
    assert conv.flops == 2 * 27 * 8 * 64
    assert (conv.params, conv.weights_read_bytes) == (27 * 8 + 8, 4 * (27 * 8 + 8))
    assert conv.moved_bytes == 4 * (3 + 8) * 64
    assert (relu.kernels, flat.kernels, flat.moved_bytes) == (1, 0, 0)
    assert fc.products == (Product(1, 8 * 64, 10),)
    assert found.params == 27 * 8 + 8 + 10 * 8 * 64
    assert found.peak_activation_bytes_per_sample == 4 * 2 * 8 * 64  # the convolution's output beside the ReLU's


def test_small_weights_in_a_file_of_their_own_need_not_be_there(save, tmp_path):
    """However small: a bias of 10 numbers lies beside the graph, and is not read while shapes are computed."""
    nodes = [
        helper.make_node("Shape", ["x"], ["all"]),
        helper.make_node("Cast", ["all"], ["whole"], to=TensorProto.INT32),
        helper.make_node("Slice", ["whole", "zero", "one"], ["batch"]),
        helper.make_node("Cast", ["batch"], ["count"], to=TensorProto.INT64),
        helper.make_node("Div", ["count", "one"], ["same"]),  # which onnx itself does not follow
        helper.make_node("Concat", ["same", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    numbers = {"zero": [0], "one": [1], "rest": [-1]}
    constants = [helper.make_tensor(name, TensorProto.INT64, [1], held) for name, held in numbers.items()]
    bias = numpy_helper.from_array(np.zeros(10, dtype=np.float32), "b")  # bytes, which can be moved out of the graph
    save(nodes, [value("x", -1, 4, "?", "?")], [value("y", -1, 10)], [*constants, bias, weight("w", 4 * 6 * 5, 10)])
    apart = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    onnx.save(onnx.load("m.onnx"), str(tmp_path / "apart.onnx"), **apart)
    (tmp_path / "w.bin").unlink()
    found = onnx_graph.read("onnx:apart.onnx", (4, 6, 5))
    assert found.layers == onnx_graph.read("onnx:m.onnx", (4, 6, 5)).layers


def test_attention_is_a_product_of_activations(save):
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["x", "t"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    model = save(nodes, [value("x", 1, 4, 16, 32)], [value("y", 1, 4, 16, 5)], [weight("w", 16, 5)])
    _, scores, mixed = onnx_graph.read(model, None).layers
    assert scores.products == (Product(16, 32, 16, 4, batched=True),)
    assert mixed.products == (Product(4 * 16, 16, 5),)


def test_a_weight_that_two_nodes_use_is_held_once(save):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    found = onnx_graph.read(save(nodes, [value("x", 1, 4)], [value("y", 1, 4)], [weight("w", 4, 4)]), None)
    assert found.params == 16
    assert found.flops == 2 * 2 * 16
    assert [layer.weights_read_bytes for layer in found.layers] == [64, 64]


def test_weights_in_constant_nodes_are_weights(save):
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    constant = helper.make_node("Constant", [], ["w"], value=weight("", 16, 5))
    given, put_out = [value("x", 1, 16)], [value("y", 1, 5)]
    inside = onnx_graph.read(save([constant, product], given, put_out), None)
    assert inside.params == 16 * 5
    assert inside.layers == onnx_graph.read(save([product], given, put_out, [weight("w", 16, 5)]), None).layers
    assert inside.peak_activation_bytes_per_sample == 4 * (16 + 5)


def test_an_input_without_sizes_is_refused(save):
    scalar = save([helper.make_node("Relu", ["x"], ["y"])], [value("x")], [value("y")])
    for shape in (None, (3, 8)):
        with pytest.raises(ZooError, match="input x has no batch"):
            onnx_graph.read(scalar, shape)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (None, "the shape of input x is not fixed. Write it"),
        ((3, 8), "input x has 3 sizes a sample, got 3x8"),
        ((4, 8, 8), "input x is fixed at 3 where 4 was asked for"),
    ],
)
def test_an_input_that_does_not_fit(network, shape, said):
    with pytest.raises(ZooError, match=said):
        onnx_graph.read(network, shape)


def test_a_fixed_batch_and_control_flow_are_refused(save):
    with pytest.raises(ZooError, match="its batch is fixed at 8"):
        onnx_graph.read(save([helper.make_node("Relu", ["x"], ["y"])], [value("x", 8, 4)], [value("y", 8, 4)]), None)
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "inner", [], [value("z", 1, 4)])
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [1])
    branch = helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner)
    with pytest.raises(ZooError, match="If nodes are not known"):
        onnx_graph.read(save([branch], [value("x", 1, 4), flag], [value("y", 1, 4)]), None)


def test_damaged_and_missing_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xfe no graph")
    with pytest.raises(ZooError, match="is no ONNX file, or a damaged one"):
        onnx_graph.read("onnx:bad.onnx", None)
    with pytest.raises(ZooError, match="the file is not there"):
        onnx_graph.read("onnx:none.onnx", None)


def test_a_file_is_planned_with_but_not_run_without_its_runtime(network, monkeypatch):
    from calibrate.layers.facts import facts
    from calibrate.zoo.zoo import build

    with forking():
        assert facts(network, (3, 8, 8)).params == 27 * 8 + 8 + 10 * 8 * 64
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ZooError, match="needs onnxruntime"):
        build(network)
