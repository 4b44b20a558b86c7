"""Changes of models and levels of memory beside searches of all cases, for every model that is shipped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.layers.facts import facts, known
from planner.questions.profiling.anatomy import exponent
from planner.questions.profiling.systolic import Dataflow, arrays, map_model
from planner.questions.profiling.whatif import checkpointing, fused, grayscale, sparse, training_memory
from planner.questions.profiling.working_set import (
    MEMORY,
    MemoryLevel,
    first_outside,
    knee_of,
    knees,
    working_set_bytes,
)

MODELS = ("lenet", "resnet18", "mobilenet_v3_large", "bert_base")


@given(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(1, 10**6))
def test_the_first_batch_outside_is_the_first(fixed: int, sample: int, size: int) -> None:
    batch = first_outside(fixed, sample, MemoryLevel("L2", size))
    assert fixed + batch * sample > size
    assert batch == 1 or fixed + (batch - 1) * sample <= size


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", [10**5, 10**7, 10**9])
def test_a_cache_is_left_by_the_layer_that_needs_most(model: str, size: int) -> None:
    """At the knee some layer does not fit, and one batch below all of them do."""
    layers = [layer for layer in facts(model).layers if layer.kernels]
    (knee,) = knees(facts(model), [MemoryLevel("L2", size)])
    outside = [layer.name for layer in layers if working_set_bytes(layer, knee.batch) > size]
    assert knee.layer in outside
    assert knee.share == pytest.approx(len(outside) / len(layers))
    if knee.batch > 1:
        assert all(working_set_bytes(layer, knee.batch - 1) <= size for layer in layers)


@pytest.mark.parametrize("model", MODELS)
def test_half_precision_leaves_no_level_sooner(model: str) -> None:
    levels = [MemoryLevel("L2", 10**7), MemoryLevel(MEMORY, 10**10)]
    for whole, half in zip(knees(facts(model), levels), knees(facts(model), levels, "fp16"), strict=True):
        assert half.batch >= whole.batch


@given(st.dictionaries(st.integers(1, 64), st.floats(0.001, 10), min_size=1))
def test_before_a_knee_no_sample_takes_clearly_longer(times_s: dict[int, float]) -> None:
    knee = knee_of(times_s)
    each = {batch: time_s / batch for batch, time_s in sorted(times_s.items())}
    rises = [b for b in each if any(each[b] > 1.1 * each[smaller] for smaller in each if smaller < b)]
    assert knee == (min(rises) if rises else None)


@given(st.floats(0.1, 2), st.integers(1, 100), st.integers(2, 10), st.floats(0.001, 1))
def test_an_exponent_is_found_again(power: float, batch: int, times: int, unit_s: float) -> None:
    assert exponent({batch * times**i: unit_s * times ** (i * power) for i in range(3)}) == pytest.approx(power)


@pytest.mark.parametrize("model", known())
def test_changes_keep_what_they_do_not_touch(model: str) -> None:
    whole = facts(model)
    thin, quick = sparse(whole), fused(whole)
    assert thin.flops <= whole.flops
    assert 2 * thin.flops >= whole.flops
    assert quick.flops == whole.flops
    assert quick.kernels <= whole.kernels
    assert (thin.params, quick.params) == (whole.params, whole.params)
    for batch in (1, 8):
        assert thin.moved_bytes(batch) <= whole.moved_bytes(batch)
        assert quick.moved_bytes(batch) <= whole.moved_bytes(batch)
    if gray := grayscale(whole):
        assert gray.input_shape[0] == 1
        assert gray.flops < whole.flops
        assert gray.input_bytes_per_sample * 3 == whole.input_bytes_per_sample


@pytest.mark.parametrize("model", MODELS)
def test_no_other_number_of_segments_keeps_less(model: str) -> None:
    """Of all divisions into equal runs of layers: checkpoints before each run, and the largest run itself."""
    made = [layer.made_bytes for layer in facts(model).layers if layer.made_bytes]
    found = checkpointing(facts(model), 4)
    kept = []
    for length in range(1, len(made) + 1):
        runs = [made[i : i + length] for i in range(0, len(made), length)]
        kept.append(sum(run[-1] for run in runs[:-1]) + max(map(sum, runs)))
    assert found.checkpointed_bytes == 4 * min(kept)
    assert found.kept_bytes == 4 * sum(made) >= found.checkpointed_bytes


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dataflow", list(Dataflow))
def test_no_array_is_busier_than_all_its_cells(model: str, dataflow: Dataflow) -> None:
    for array in arrays().values():
        layers = map_model(facts(model), array, dataflow, 4)
        for layer in layers:
            assert 0 < layer.utilization <= 1
            assert layer.time_s == max(layer.compute_s, layer.weights_s)
        assert sum(layer.macs for layer in layers) == 4 * sum(
            product.macs for layer in facts(model).layers for product in layer.products
        )


@pytest.mark.parametrize("model", MODELS)
def test_memory_of_training_grows_by_activations_alone(model: str) -> None:
    small, large = (training_memory(facts(model), batch) for batch in (1, 9))
    assert (small.weights, small.gradients, small.optimizer) == (large.weights, large.gradients, large.optimizer)
    assert large.activations.mid == pytest.approx(9 * small.activations.mid)
    assert small.total.low <= small.total.mid <= small.total.high
