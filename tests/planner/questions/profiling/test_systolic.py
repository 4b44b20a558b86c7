"""Systolic arrays: cycles against the closed forms worked by hand, and what fills an array."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.layers.facts import facts
from calibrate.layers.work import Product
from planner.questions.profiling.systolic import (
    Dataflow,
    SystolicArray,
    arrays,
    batched,
    map_layer,
    map_model,
    map_product,
)

TPU = arrays()["tpu-v1"]
SIDES = st.integers(1, 3000)


def small(rows=4, columns=4):
    return SystolicArray(
        name="small",
        rows=rows,
        columns=columns,
        clock_hz=1e6,
        value_bytes=1,
        buffer_bytes=1000,
        memory_bytes_per_s=1e6,
        source="a test",
    )


def test_the_catalog_holds_the_first_tpu():
    assert (TPU.rows, TPU.columns, TPU.clock_hz, TPU.value_bytes) == (256, 256, 700e6, 1)
    assert (TPU.buffer_bytes, TPU.memory_bytes_per_s) == (28 * 2**20, 34e9)
    assert 2 * TPU.rows * TPU.columns * TPU.clock_hz == pytest.approx(92e12, rel=0.003)  # 92 TOP/s, as published
    assert "ISCA 2017" in TPU.source


@pytest.mark.parametrize(
    ("product", "dataflow", "folds", "cycles"),
    [
        # AlexNet's first layer, 55 x 55 places, kernels of 11 x 11 x 3, 96 filters; a fold is 2 R + C + T - 2.
        (Product(3025, 363, 96), "ws", 2 * 1, 2 * (512 + 256 + 3025 - 2)),
        (Product(3025, 363, 96), "is", 2 * 12, 24 * (512 + 256 + 96 - 2)),
        (Product(3025, 363, 96), "os", 12 * 1, 12 * (512 + 256 + 363 - 2)),
        # VGG16's first linear layer at batch 1.
        (Product(1, 25088, 4096), "ws", 98 * 16, 98 * 16 * (512 + 256 + 1 - 2)),
        (Product(1, 25088, 4096), "is", 98 * 1, 98 * (512 + 256 + 4096 - 2)),
        (Product(1, 25088, 4096), "os", 1 * 16, 16 * (512 + 256 + 25088 - 2)),
        # A depthwise convolution of MobileNet: 112 x 112 places, 3 x 3, 16 channels each on its own.
        (Product(12544, 9, 1, 16), "ws", 16, 16 * (512 + 256 + 12544 - 2)),
        (Product(12544, 9, 1, 16), "is", 16 * 49, 16 * 49 * (512 + 256 + 1 - 2)),
        (Product(12544, 9, 1, 16), "os", 16 * 49, 16 * 49 * (512 + 256 + 9 - 2)),
    ],
)
def test_cycles_are_those_of_the_closed_forms(product, dataflow, folds, cycles):
    found = map_product(product, TPU, Dataflow(dataflow))
    assert (found.folds, found.cycles) == (folds, cycles)
    assert found.utilization == product.macs / (65536 * cycles)


def simulated(product):
    """Output-stationary, cell by cell: a[i, k] and b[k, j] meet in cell i, j at cycle i + j + k; then results leave."""
    last = max(i + j + k for i in range(product.rows) for j in range(product.columns) for k in range(product.inner))
    return last + 1 + product.rows  # cycles from 0 to the last product, and one a row to shift results out


@pytest.mark.parametrize("inner", [1, 3, 10])
def test_one_full_fold_takes_what_a_simulation_takes(inner):
    product = Product(4, inner, 4)
    assert map_product(product, small(), Dataflow.OS).cycles == simulated(product)


def test_a_full_array_is_busy_and_a_depthwise_layer_is_not():
    assert map_product(Product(100_000, 256, 256), TPU, Dataflow.WS).utilization > 0.99
    assert map_product(Product(256, 100_000, 256), TPU, Dataflow.OS).utilization > 0.99
    assert map_product(Product(256, 256, 100_000), TPU, Dataflow.IS).utilization > 0.99
    depthwise = [x for x in facts("mobilenet_v3_large").layers if any(p.times > 1 for p in x.products)]
    assert len(depthwise) == 15
    assert all(map_layer(x, TPU, Dataflow.WS, 64).utilization < 0.001 for x in depthwise)


@given(SIDES, SIDES, SIDES, st.integers(1, 9), st.sampled_from(Dataflow))
def test_no_mapping_beats_the_array(rows, inner, columns, times, dataflow):
    found = map_product(Product(rows, inner, columns, times), TPU, dataflow)
    assert 0 < found.utilization <= 1
    assert found.macs == rows * inner * columns * times


def test_batches_add_rows_against_weights_and_products_without():
    assert batched(Product(5, 6, 7, 2), 3) == Product(15, 6, 7, 2)
    assert batched(Product(5, 6, 7, 2, batched=True), 3) == Product(5, 6, 7, 6, batched=True)


def test_weights_stream_in_as_often_as_the_dataflow_says():
    product = Product(10, 4, 4)
    reads = {flow: map_product(product, small(), flow).weight_reads for flow in Dataflow}
    assert reads == {Dataflow.WS: 1, Dataflow.IS: 3, Dataflow.OS: 3}


def test_linear_layers_wait_for_their_weights():
    mapped = {x.layer.name: x for x in map_model(facts("vgg16"), TPU, Dataflow.WS, 1)}
    linear = mapped["classifier.0"]
    assert linear.bound == "bandwidth"
    assert linear.time_s == pytest.approx(25088 * 4096 / 34e9)
    assert mapped["features.2"].bound == "arithmetic"
    assert mapped["features.2"].fits
    assert not {x.layer.name: x for x in map_model(facts("vgg16"), TPU, Dataflow.WS, 8)}["features.2"].fits


def test_layers_without_products_are_left_out():
    assert {x.layer.type for x in map_model(facts("resnet50"), TPU, Dataflow.OS, 1)} == {"Conv2d", "Linear"}
