"""ONNX files are run by ONNX Runtime as they are, and their profiles say so."""

import pytest

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import torch  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

from calibrate.io.points import Settings  # noqa: E402
from calibrate.zoo.sources import ZooError  # noqa: E402
from calibrate.zoo.zoo import build  # noqa: E402

TWICE = torch.arange(6.0).reshape(3, 2)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Writes a product with a matrix, whose input is as given."""
    monkeypatch.chdir(tmp_path)

    def save(*sides):
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(sides))
        put_out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [sides[0], 2])
        weight = helper.make_tensor("w", TensorProto.FLOAT, (3, 2), TWICE.flatten().tolist())
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [given], [put_out], [weight])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(made, str(tmp_path / "m.onnx"))

    return save


def test_a_file_gives_what_pytorch_gives(saved):
    saved("batch", 3)
    built = build("onnx:m.onnx")
    inputs = built.make_input(4, "cpu", Settings())
    (found,) = built.forward(built.module, inputs)
    assert (built.shape, built.is_opaque, inputs["x"].shape) == ((3,), True, (4, 3))
    torch.testing.assert_close(found, inputs["x"] @ TWICE)


@pytest.mark.parametrize(
    ("sides", "said"),
    [((1, 3), "its batch is fixed at 1"), (("batch", "n"), "the shape of input x is not fixed")],
)
def test_a_file_that_cannot_be_run_at_any_batch_is_refused(saved, sides, said):
    saved(*sides)
    with pytest.raises(ZooError, match=said):
        build("onnx:m.onnx")


def test_a_damaged_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(ZooError, match="onnxruntime cannot load it"):
        build("onnx:m.onnx")
