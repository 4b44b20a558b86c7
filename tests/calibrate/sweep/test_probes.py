"""Device probes, run for real on the CPU: what they find is consistent with itself and with what is not ours."""

import json
import math
import os
import time
import timeit
from collections.abc import Iterator
from statistics import median

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrate.io.points import Figures
from calibrate.library.fit import fit_load
from calibrate.sweep import probes
from calibrate.sweep.agenda import probe_names
from calibrate.sweep.probes import EndlessPictures

ON_CPU = probe_names("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def found(one_thread: None) -> dict[str, Figures]:
    """All probes of a CPU, each in as little time as it can do with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calibrate.devices.host.CLIP_FRAMES", 5)
        return {name: probes.run(name, "cpu", 0.05) for name in ON_CPU}


def test_which_probes_there_are() -> None:
    assert ON_CPU == ("context", "copy", "device_copy", "matmul", "launch", "knees", "loader", "host")
    # Idle power comes first: once there is a context, a GPU no longer draws what it draws without.
    assert probe_names("cuda") == ("idle", *ON_CPU, "links") == tuple(probes.PROBES)


@pytest.mark.parametrize("name", ON_CPU)
def test_every_figure_is_positive_and_names_its_unit(found: dict[str, Figures], name: str) -> None:
    values, samples, _ = found[name]
    assert values
    assert all(math.isfinite(value) and value >= 0 for value in values.values())
    assert all(taken and min(taken) > 0 for taken in samples.values())
    units = ("_s", "_bytes", "_flops", "bytes_per_s", "samples_per_s")
    assert all(key.endswith(units) for key in [*values, *samples])
    assert json.loads(json.dumps(found[name]._asdict(), allow_nan=False)) == found[name]._asdict()


def test_copies_are_of_several_sizes_and_larger_ones_take_longer(found: dict[str, Figures]) -> None:
    copies = found["copy"]
    medians = {int(key.split("_")[1]): median(taken) for key, taken in copies.samples.items()}
    assert list(medians) == list(probes.COPIED_BYTES[: len(medians)])
    assert len(medians) >= probes.SIZES_AT_LEAST
    assert medians[max(medians)] > medians[min(medians)]
    assert copies.values["host_bytes_per_s"] == fit_load(medians.items()).load.bytes_per_s


def test_memory_is_about_as_fast_as_numpy_finds_it(found: dict[str, Figures]) -> None:
    # Within a factor of 30 only: others use this machine's memory meanwhile. A wrong unit is off by 1000.
    size = 1 << 27
    source, target, taken = (
        np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8),
        np.empty(size, np.uint8),
        [],
    )
    for _ in range(2):
        start = time.perf_counter()
        np.copyto(target, source)
        taken.append(time.perf_counter() - start)
    rate = 2 * size / min(taken)
    assert rate / 30 < found["device_copy"].values["bytes_per_s"] < rate * 30
    assert rate / 30 < found["copy"].values["host_bytes_per_s"] < rate * 30


def test_memory_traffic_counts_reads_and_writes(found: dict[str, Figures]) -> None:
    values, samples, _ = found["device_copy"]
    assert values["bytes_per_s"] == 2 * (1 << 28) / median(samples["copy_s"])


def test_arithmetic_is_what_a_processor_can_do(found: dict[str, Figures]) -> None:
    # At most two units of 16 multiply-adds on each core, at 6 GHz.
    assert 1e8 < found["matmul"].values["fp32_flops"] < (os.cpu_count() or 1) * 2 * 16 * 2 * 6e9
    rates = {key: 2 * int(key.split("_")[1]) ** 3 / median(t) for key, t in found["matmul"].samples.items()}
    for precision in ("fp32", "bf16", "fp16"):
        assert found["matmul"].values[f"{precision}_flops"] == max(
            rate for key, rate in rates.items() if key.startswith(precision)
        )


def test_products_leave_the_precision_as_it_was() -> None:
    before = torch.get_float32_matmul_precision()
    probes.run("matmul", "cpu", 0.01)
    assert torch.get_float32_matmul_precision() == before


def test_the_smallest_operation_takes_about_as_long_as_it_does_here(found: dict[str, Figures]) -> None:
    # Within a factor of 30, as memory.
    number = torch.rand(1)
    one_s = min(timeit.repeat(lambda: number.add_(1.0), number=500, repeat=5)) / 500
    assert one_s / 30 < found["launch"].values["queued_s"] < one_s * 30


def test_data_is_loaded_by_none_one_and_more_workers_up_to_the_cores(found: dict[str, Figures]) -> None:
    counts = [int(key.split("_")[1]) for key in found["loader"].values]
    assert counts == sorted(counts)
    assert counts[:2] == [0, 1]
    assert counts[-1] == len(os.sched_getaffinity(0))


def test_pictures_with_and_without_pillow_are_alike() -> None:
    decoded, made = EndlessPictures(), EndlessPictures()
    made.jpeg = None
    for pictures in (decoded, made):
        for index in (0, 1, 12_345):
            picture = pictures[index]
            assert (picture.shape, picture.dtype) == ((3, 224, 224), torch.float32)
            assert -0.5 <= float(picture.min()) < float(picture.max()) <= 0.5
    assert not torch.equal(decoded[0], decoded[1])


def test_a_process_without_a_model_holds_what_torch_holds(found: dict[str, Figures]) -> None:
    # This process has the same torch and more.
    with open("/proc/self/statm", encoding="utf-8") as file:
        own_bytes = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert 30e6 < found["context"].values["rss_bytes"] < 1.5 * own_bytes


@given(st.floats(1e-7, 1e-2), st.floats(1e8, 1e12))
def test_the_line_through_points_on_a_line_is_that_line(t0_s: float, bytes_per_s: float) -> None:
    fit = fit_load((size, t0_s + size / bytes_per_s) for size in probes.COPIED_BYTES)
    assert fit.error_max < 1e-6
    for size in probes.COPIED_BYTES:
        assert fit.load(size) == pytest.approx(t0_s + size / bytes_per_s)


def test_the_line_states_its_worst_error_and_where() -> None:
    times = {size: 1e-5 + size / 1e10 for size in probes.COPIED_BYTES} | {4096: 5e-5}
    fit = fit_load(times.items())
    assert fit.error_max_at_bytes == 4096
    assert 0 < fit.error_mean < fit.error_max
