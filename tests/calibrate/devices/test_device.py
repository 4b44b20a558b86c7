"""Devices: the end of a GPU's memory is told from other failures, by torch's text and by what was free."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from calibrate.devices.device import Cuda  # noqa: E402

GB = 10**9
ALWAYS = (
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "CUDA driver error: out of memory",
    'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1017, please report a bug',
)
ENGINES = (
    "GET was unable to find an engine to execute this computation",
    "FIND was unable to find an engine to execute this computation",
    "Unable to find a valid cuDNN algorithm to run convolution",
)


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A GPU of 16 GB, as torch tells of it: free now, reserved now, and the most that was reserved."""
    state = SimpleNamespace(free=16 * GB, reserved=0, peak=0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (state.free, 16 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: state.reserved)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda _: state.peak)
    return state


@pytest.mark.parametrize("text", ALWAYS)
@pytest.mark.usefixtures("crowd")
def test_texts_that_only_the_end_of_memory_has(text: str) -> None:
    assert Cuda(0).is_out_of_memory(RuntimeError(text))


@pytest.mark.parametrize("text", ENGINES)
@pytest.mark.parametrize(
    ("limit_gb", "others_gb", "peak_gb", "ended"),
    [(None, 0, 12, True), (None, 0, 4, False), (None, 10, 4, True), (4, 0, 3, True), (4, 0, 1, False)],
)
def test_a_missing_engine_is_the_end_of_memory_where_the_gpu_was_crowded(
    crowd: SimpleNamespace, text: str, limit_gb: int | None, others_gb: int, peak_gb: int, ended: bool
) -> None:
    crowd.free = (16 - others_gb) * GB
    crowd.peak = peak_gb * GB
    cuda = Cuda(0, limit_bytes=limit_gb and limit_gb * GB)
    assert cuda.is_out_of_memory(RuntimeError(text)) is ended


@pytest.mark.usefixtures("crowd")
def test_other_failures_are_none() -> None:
    assert not Cuda(0).is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
