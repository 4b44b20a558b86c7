"""Logs of trtexec as its versions write them, and as people keep them: several runs in a file, summaries alone.

Figures are of logs in public repositories: a series of TensorRT 7.1 at int8 (README of KhairulIzwan/data_statistics),
a loaded engine of TensorRT 8.6.1 (trex-example in sqjb/TensorRT-Tutorial at df87a7e), QAT of YOLOv9-C with TensorRT
10.1 on an RTX 4050 Laptop GPU (execute_qat.ipynb in tku411770448/AI-Department-Graduation-Presentation at 3e66bf8), and
its summaries alone (a page of the same measurements). `Strongly Typed` is what samples/common/sampleOptions.cpp of
NVIDIA/TensorRT at a892d222 prints of every engine.
"""

from pathlib import Path

import pytest
from support.imports import imported, refused

RUN_7 = """&&&& RUNNING TensorRT.trtexec # trtexec --deploy=Models/resnet-50.prototxt --int8 --batch={batch}
[01/12/2021-17:34:20] [I] Model:
[01/12/2021-17:34:20] [I] Prototxt: Models/resnet-50.prototxt
[01/12/2021-17:34:20] [I] Precision: FP32+INT8
[01/12/2021-17:34:20] [I] Load engine:
[01/12/2021-17:34:20] [I] Batch: {batch}
[01/12/2021-17:34:20] [I] Input inference shapes: model
[01/12/2021-17:34:20] [I] Streams: 1
[01/12/2021-17:36:31] [I] Average on 3 runs - GPU latency: {average} ms - Host latency: {average} ms
[01/12/2021-17:36:31] [I] Enqueue Time
[01/12/2021-17:36:31] [I] median: 4.06059 ms
[01/12/2021-17:36:31] [I] GPU Compute
[01/12/2021-17:36:31] [I] min: 1.0 ms
[01/12/2021-17:36:31] [I] max: 999.0 ms
[01/12/2021-17:36:31] [I] mean: {mean} ms
[01/12/2021-17:36:31] [I] median: 2.0 ms
[01/12/2021-17:36:31] [I] total compute time: 3.09382 s
&&&& {ended} TensorRT.trtexec # trtexec --deploy=Models/resnet-50.prototxt --int8 --batch={batch}
"""
SERIES_7 = ((1, 55.2414, 55.2468), (4, 199.357, 199.649), (8, 373.409, 374.51))
RUN_8 = """&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --loadEngine=output1/yolov8s.onnx.engine{shapes}
[02/06/2024-17:32:05] [I] Model:
[02/06/2024-17:32:05] [I] Max batch: explicit batch
[02/06/2024-17:32:09] [I] === Performance summary ===
[02/06/2024-17:32:09] [I] GPU Compute Time: min = 8.55542 ms, max = 8.62415 ms, mean = {mean} ms, median = 8.57849 ms
&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --loadEngine=output1/yolov8s.onnx.engine{shapes}
"""
SUMMARY = """=== Performance summary ===
Throughput: 106.321 qps
GPU Compute Time: min = 9.32959 ms, max = 10.3383 ms, mean = 9.40385 ms, median = 9.34619 ms
Total GPU Compute Time: 10.0151 s
"""
RUN_11 = """&&&& RUNNING TensorRT.trtexec [TensorRT v{version}] [b9] # trtexec --onnx=resnet50.onnx
[07/20/2026-10:00:00] [I] Precision: {precision}
[07/20/2026-10:00:00] [I] Compute Capability: 8.9
[07/20/2026-10:00:09] [I] Input binding for images with dimensions 8x3x224x224 is created.
[07/20/2026-10:00:12] [I] GPU Compute Time: min = 5.1 ms, max = 5.4 ms, mean = 5.2 ms, median = 5.2 ms
&&&& PASSED TensorRT.trtexec [TensorRT v{version}] [b9] # trtexec --onnx=resnet50.onnx
"""
SIZES = ("--weights", "26 MB", "--memory", "90 MB")


def series_7(ended: str = "PASSED") -> str:
    """A log into which three runs wrote, of which the last ended so."""
    return "".join(
        RUN_7.format(batch=batch, average=average, mean=mean, ended=ended if batch == 8 else "PASSED")
        for batch, average, mean in SERIES_7
    )


def test_several_runs_in_a_file_are_a_series(tmp_path: Path) -> None:
    (log := tmp_path / "series.log").write_text(series_7())
    assert "gpu, input not said" in refused(tmp_path, log, *SIZES)
    made = imported(tmp_path, log, *SIZES, "--gpu", "T4", "--input", 224)
    assert (made["model"], made["precision"], made["as_of"]) == ("resnet-50", "int8", "2021-01-12")
    assert made["latency_s"] == {str(batch): pytest.approx(mean / 1e3) for batch, _, mean in SERIES_7}
    log.write_text(series_7("FAILED"))
    assert "series.log:37: is a log of trtexec that did not end as PASSED" in refused(tmp_path, log, *SIZES)
    log.write_text(series_7().replace("55.2414", "95.2414"))
    assert "says the mean GPU time in ms twice" in refused(tmp_path, log, *SIZES)


def test_batch_and_input_of_a_loaded_engine_are_those_of_its_command(tmp_path: Path) -> None:
    (log := tmp_path / "engine.log").write_text(RUN_8.format(shapes=" --shapes=images:2x3x640x640", mean=8.58055))
    words = ("--gpu", "T4", "--precision", "fp16", *SIZES)
    made = imported(tmp_path, log, *words)
    assert (made["model"], made["latency_s"]) == ("yolov8s", {"2": pytest.approx(8.58055e-3)})
    assert "trtexec 8.6.1: engine.log" in str(made["source"])
    assert "input 640" in str(made["source"])
    assert "Weights are taken as large as the engine." not in str(made["assumptions"])  # its size is not in the log
    log.write_text(RUN_8.format(shapes="", mean=4.62722))
    assert "input, batch not said" in refused(tmp_path, log, *words)


def test_a_summary_alone_is_read_and_all_else_asked_for(tmp_path: Path) -> None:
    (log := tmp_path / "kept.txt").write_text(SUMMARY)
    said = refused(tmp_path, log)
    assert "model, gpu, precision, input, batch, weights, memory not said" in said
    words = ("--model", "yolov9c", "--gpu", "L4", "--precision", "int8", "--input", 640, "--batch", 4, *SIZES)
    assert imported(tmp_path, log, *words)["latency_s"] == {"4": pytest.approx(9.40385e-3)}
    log.write_text(SUMMARY * 2)
    assert "kept.txt:1: has several summaries below each other" in refused(tmp_path, log, *words)


@pytest.mark.parametrize(
    ("version", "precision", "found", "tool"),
    [
        ("110000", "Strongly Typed", None, "trtexec 11.0.0"),
        ("100100", "FP32+FP16+INT8", "int8", "trtexec 10.1.0"),
        ("100100", "FP32", "tf32", "trtexec 10.1.0"),
        ("8601", "FP32+FP16", "fp16", "trtexec 8.6.1"),
    ],
)
def test_strongly_typed_engines_do_not_say_their_precision(
    tmp_path: Path, version: str, precision: str, found: str | None, tool: str
) -> None:
    (log := tmp_path / "run.log").write_text(RUN_11.format(version=version, precision=precision))
    words = ("--gpu", "L4", *SIZES)
    if found is None:
        assert "precision not said. Add --precision P." in refused(tmp_path, log, *words)
        words = (*words, "--precision", "fp16")
    made = imported(tmp_path, log, *words)
    assert made["precision"] == (found or "fp16")
    assert str(made["source"]).startswith(tool)


def test_logs_that_powershell_redirected(tmp_path: Path) -> None:
    """It writes UTF-16 and ends lines its own way."""
    text = RUN_11.format(version="8601", precision="FP32+FP16").replace("\n", "\r\n")
    (log := tmp_path / "run.log").write_bytes(text.encode("utf-16"))
    assert imported(tmp_path, log, "--gpu", "L4", *SIZES)["latency_s"] == {"8": pytest.approx(5.2e-3)}
    log.write_bytes(text.encode("utf-16-le"))
    assert "run.log: is no text in UTF-8: byte 0x00 at offset 1" in refused(tmp_path, log)
