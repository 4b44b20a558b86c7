"""Files of other tools become profiles that plans take; damaged ones end in a line each, with nothing written.

The files in tests/data/imports are excerpts of real ones: trtexec.log is lines of a log in a public repository
(TensorRT 8.5 on an RTX 2080 Ti, YOLO11m at batch 4); perf_analyzer.csv is the example of its documentation
(docs/measurements_metrics.md in triton-inference-server/perf_analyzer, BSD-3-Clause),
model_analyzer.csv that of the guide to Kubernetes of Model Analyzer; mlperf-*.txt are summaries of NVIDIA's audit in
mlcommons/inference_results_v0.5 (Xavier and 20 T4, ResNet-50); ultralytics.txt is of a public repository; timm.csv is
lines of pytorch-image-models' results on an RTX 3090; torch-benchmark.txt was printed by torch.utils.benchmark here;
vllm-serve.json is cut from a public run, aiperf.json from the test data of another project. Excerpts below name theirs.
"""

import csv
import json
import os
from pathlib import Path

import pytest
from support import paths
from support.commands import planner
from support.imports import imported, refused

from calibrate.io.files import lines_json
from calibrate.io.tables import csv_text
from calibrate.library.lookup import SHIPPED, find_profiles, read_profile
from planner.catalog.catalog import load_catalog
from planner.imports.measurements import plain_csv
from planner.imports.measurements.formats import read_measurements
from planner.imports.texts import TextFile
from simulator.world.profile import Evidence

DATA = paths.DATA / "imports"
RESNET = ("--model", "resnet50", "--input", "224")
CARD = """source: data sheet
gpus:
  RTX-2080-Ti:
    {memory_gb: 11, memory_bandwidth_gb_per_s: 616, fp32_tflops: 13.4, tensor_fp16_tflops: 53.8, tdp_w: 250,
     idle_w: 20, pcie_gb_per_s: 16}
"""
CATALOG = load_catalog()


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A catalog with the GPU of the trtexec log."""
    folder = tmp_path / "catalog"
    folder.mkdir()
    (folder / "gpus.yaml").write_text(CARD)
    return folder


def test_trtexec_log_says_all_but_nothing_of_loading(tmp_path: Path, catalog: Path) -> None:
    made = imported(tmp_path, DATA / "trtexec.log", "--catalog", catalog)
    assert (made["model"], made["gpu"], made["precision"], made["runtime"]) == (
        "yolov11m",
        "RTX-2080-Ti",
        "fp16",
        "tensorrt",
    )
    assert made["latency_s"] == {"4": pytest.approx(7.32218e-3)}  # GPU Compute Time, without copies
    assert (made["weight_bytes"], made["workspace_bytes"]) == (40 * 2**20, {"4": 263 * 2**20})
    assert made["as_of"] == "2024-10-01"
    assert made["latency_evidence"] == made["memory_evidence"] == Evidence.ELSEWHERE
    assert made["load_evidence"] == Evidence.ASSUMED


@pytest.mark.parametrize(
    ("changed", "to"),
    [
        ("GPU latency: 7.34621 ms", "GPU latency: 14.34621 ms"),  # its average is no longer the average of all
        ("with dimensions 4x3x640x640", "with dimensions 2x3x640x640"),
        ("&&&& PASSED", "&&&& FAILED"),
        ("mean = 7.32218 ms", "mean = nan ms"),
        ("mean = 7.32218 ms", "mean = -7.32218 ms"),
        ("GPU Compute Time", "Compute"),
        ("Streams: 1", "Streams: 4"),
    ],
)
def test_trtexec_log_that_contradicts_itself(tmp_path: Path, catalog: Path, changed: str, to: str) -> None:
    text = (DATA / "trtexec.log").read_text()
    assert changed in text
    (log := tmp_path / "bad.log").write_text(text.replace(changed, to))
    refused(tmp_path, log, "--catalog", catalog)


def test_loaded_engine_does_not_say_its_precision(tmp_path: Path, catalog: Path) -> None:
    text = (
        (DATA / "trtexec.log")
        .read_text()
        .replace(" --fp16", "")
        .replace("Load engine: ", "Load engine: /m/yolo.engine")
    )
    (log := tmp_path / "loaded.log").write_text(text)
    assert "--precision" in refused(tmp_path, log, "--catalog", catalog)


def test_trtexec_since_8_6_words_its_shapes_otherwise(tmp_path: Path) -> None:
    """Lines of trtexec.log in sweatypenguin624/mvsacmp on GitHub: TensorRT 8.6.1 on an H100 PCIe, YOLO11s."""
    (log := tmp_path / "trtexec.log").write_text(
        "&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=UVH-26-MV-YOLOv11-S.onnx --fp16\n"
        "[08/30/2026-03:51:41] [I] Model: models/UVH-26/weights/YOLOv11-S/UVH-26-MV-YOLOv11-S.onnx\n"
        "[08/30/2026-03:51:41] [I] Precision: FP32+FP16\n"
        "[08/30/2026-03:51:41] [I] Input inference shapes: model\n"
        "[08/30/2026-03:51:41] [I] Inference Streams: 1\n"
        "[08/30/2026-03:51:41] [I] Selected Device: NVIDIA H100 PCIe\n"
        "[08/30/2026-03:51:41] [I] TensorRT version: 8.6.1\n"
        "[08/30/2026-04:08:56] [I] [TRT] Loaded engine size: 21 MiB\n"
        "[08/30/2026-04:08:57] [I] [TRT] [MemUsageChange] TensorRT-managed allocation in IExecutionContext creation: "
        "CPU +0, GPU +85, now: CPU 0, GPU 103 (MiB)\n"
        "[08/30/2026-04:08:57] [I] Input binding for images with dimensions 1x3x1280x1280 is created.\n"
        "[08/30/2026-04:08:57] [I] Output binding for output0 with dimensions 1x18x33600 is created.\n"
        "[08/30/2026-04:09:00] [I] GPU Compute Time: min = 1.58716 ms, max = 5.46997 ms, mean = 2.05867 ms, median = "
        "1.97192 ms, percentile(99%) = 3.66565 ms\n"
        "&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=UVH-26-MV-YOLOv11-S.onnx --fp16\n"
    )
    made = imported(tmp_path, log)
    assert (made["gpu"], made["precision"], made["latency_s"]) == (
        "H100-PCIe",
        "fp16",
        {"1": pytest.approx(2.05867e-3)},
    )
    assert "input 1280" in str(made["source"])
    assert (made["weight_bytes"], made["workspace_bytes"]) == (21 * 2**20, {"1": 85 * 2**20})


def test_exported_times_and_profile(tmp_path: Path) -> None:
    runs = [{"startComputeMs": t, "endComputeMs": t + 2.5, "computeMs": 2.5, "latencyMs": 3.1} for t in range(0, 40, 4)]
    (times := tmp_path / "times.json").write_text(json.dumps(runs))
    layers = [{"count": 10}, *({"name": n, "timeMs": 12.4, "averageMs": 1.24, "percentage": 50} for n in "ab")]
    (profile := tmp_path / "profile.json").write_text(json.dumps(layers))
    said, _ = read_measurements(times)
    assert [(p.latency_s, p.spread) for p in said.points] == [(pytest.approx(2.5e-3), pytest.approx(0))]
    said, _ = read_measurements(profile)
    assert [p.latency_s for p in said.points] == [pytest.approx(2.48e-3)]
    # Of one batch, and within 5 %: one point, the longer one.
    words = (*RESNET, "--gpu", "T4", "--precision", "fp16", "--batch", 4)
    assert imported(tmp_path, times, profile, *words)["latency_s"] == {"4": pytest.approx(2.5e-3)}
    layers[1]["timeMs"] = 99
    profile.write_text(json.dumps(layers))
    refused(tmp_path, profile, *words)
    runs[3]["endComputeMs"] = 99
    times.write_text(json.dumps(runs))
    refused(tmp_path, times, *words)


def test_files_of_several_batches_make_one_profile(tmp_path: Path, catalog: Path) -> None:
    text = (DATA / "trtexec.log").read_text()
    for batch, factor in ((1, 0.5), (8, 2)):
        other = text.replace("4x3x640x640", f"{batch}x3x640x640").replace(
            "mean = 7.32218", f"mean = {7.32218 * factor}"
        )
        lines = [line for line in other.splitlines(keepends=True) if "GPU latency" not in line]
        (tmp_path / f"b{batch}.log").write_text("".join(lines).replace("GPU +263", f"GPU +{60 * batch}"))
    made = imported(tmp_path, tmp_path / "b8.log", DATA / "trtexec.log", tmp_path / "b1.log", "--catalog", catalog)
    assert list(made["latency_s"]) == ["1", "4", "8"]
    assert str(made["source"]).count("sha256") == 3
    # The same batch with other figures is no repeat.
    (tmp_path / "again.log").write_text((tmp_path / "b8.log").read_text().replace(f"mean = {7.32218 * 2}", "mean = 30"))
    refused(tmp_path, tmp_path / "b8.log", tmp_path / "again.log", "--catalog", catalog)


def test_perf_analyzer_counts_one_client_and_what_the_server_computed(tmp_path: Path) -> None:
    words = (*RESNET, "--gpu", "V100", "--precision", "fp32", "--runtime", "triton-pytorch", "--batch", 1)
    made = imported(tmp_path, DATA / "perf_analyzer.csv", *words)
    assert made["latency_s"] == {"1": pytest.approx(4719e-6)}
    assert made["weight_bytes"] == pytest.approx(4 * 25.56e6, rel=0.01)  # ResNet-50's parameters, as published


def test_model_analyzer_counts_one_client(tmp_path: Path) -> None:
    words = ("--model", "resnet50", "--input", 224, "--gpu", "V100", "--precision", "fp32", "--runtime", "torchscript")
    assert imported(tmp_path, DATA / "model_analyzer.csv", *words)["latency_s"] == {"1": pytest.approx(8.1e-3)}


MODEL_ANALYZER = (
    "Model,Batch,{load},Model Config Path,Instance Group,Max Batch Size,Satisfies Constraints,"
    "Throughput (infer/sec),p99 Latency (ms)\n"
)


def test_model_analyzer_by_throughput_and_p99_alone(tmp_path: Path) -> None:
    """Rows of tests/common/*/golden-metrics-model-inference.csv in triton-inference-server/model_analyzer."""
    words = ("--gpu", "V100", "--precision", "fp32", "--runtime", "torchscript", "--input", 224)
    one, several, rated = (tmp_path / name for name in ("one.csv", "several.csv", "rated.csv"))
    head = MODEL_ANALYZER.format(load="Concurrency")
    one.write_text(
        f"{head}add_sub,2,1,add_sub_config_default,1:GPU,8,Yes,7306.0,0.4\n"
        "add_sub,1,2,add_sub_config_default,1:GPU,8,Yes,6176.0,0.6\n"
    )
    made = imported(tmp_path, one, *words, "--weights", "1 MB", "--memory", "1 MB")
    assert made["latency_s"] == {"2": pytest.approx(0.4e-3)}
    several.write_text(
        f'{head}"resnet50_libtorch,vgg19_libtorch","1,1","1,1","resnet50_libtorch_config_5,vgg19_libtorch_config_4",'
        '"2:GPU,1:GPU","1,2",Yes,"340.1, [168.9,171.2]","6.5, [7.0,6.0]"\n'
    )
    assert "several.csv:2: times several models at once" in refused(tmp_path, several, *words)
    rated.write_text(
        f"{MODEL_ANALYZER.format(load='Request Rate')}add_sub,2,32,add_sub_config_5,3:GPU,2,Yes,64.0,1.4\n"
    )
    assert "has no row of Concurrency 1" in refused(tmp_path, rated, *words)


def test_mlperf_stream_and_throughput(tmp_path: Path) -> None:
    words = (*RESNET, "--gpu", "T4", "--precision", "int8", "--runtime", "tensorrt")
    assert imported(tmp_path, DATA / "mlperf-singlestream.txt", *words)["latency_s"] == {"1": pytest.approx(2014816e-9)}
    said = refused(tmp_path, DATA / "mlperf-offline.txt", *words)
    assert "--batch" in said
    assert "--gpu-count" in said
    (tmp_path / "made").rename(tmp_path / "stream")
    made = imported(tmp_path, DATA / "mlperf-offline.txt", *words, "--batch", 128, "--gpu-count", 20)
    assert made["latency_s"] == {"128": pytest.approx(128 * 20 / 113251)}


def test_mlperf_of_a_slow_model_has_a_rate_of_few_digits(tmp_path: Path) -> None:
    """GPT-J of mlperf_inference_submissions_v3.1 has 0.33 a second; a run of 14 s has 0.07, off by 2 %."""
    text = (DATA / "mlperf-singlestream.txt").read_text()
    words = ("--model", "slow", "--input", 64, "--gpu", "T4", "--precision", "fp16", "--runtime", "pytorch")
    (log := tmp_path / "mlperf_log_summary.txt").write_text(
        text.replace(": 2014816\n", ": 13900000000\n").replace("496.32", "0.07")
    )
    made = imported(tmp_path, log, *words, "--weights", "80 MB", "--memory", "4 MB")
    assert made["latency_s"] == {"1": pytest.approx(13.9)}
    log.write_text(text.replace(": 2014816\n", ": 3008773902\n").replace("496.32", "0.5"))
    assert "says the latency in s twice" in refused(tmp_path, log, *words)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ("model,img_size,top1,top1_err,top5,top5_err,param_count", "benchmark-infer-*.csv of timm's"),
        ("model,train_samples_per_sec,train_step_time,train_batch_size", "benchmark-infer-*.csv of timm's"),
        ("Model,GPU UUID,GPU Memory Usage (MB),GPU Utilization (%)", "metrics-model-inference.csv beside it"),
        ("Metric,avg,min,max,p99", "profile_export_genai_perf.json or profile_export_aiperf.json beside it"),
    ],
)
def test_tables_beside_those_that_are_read(tmp_path: Path, columns: str, named: str) -> None:
    (file := tmp_path / "other.csv").write_text(f"{columns}\n")
    assert f"Name a {named}" in refused(tmp_path, file).replace("Name the ", "Name a ")


def test_figures_no_gpu_can_reach_are_refused(tmp_path: Path) -> None:
    """20 GPUs' throughput taken for one's is above a T4's peak."""
    (table := tmp_path / "fast.csv").write_text(
        "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count,infer_gmacs,infer_macts\n"
        "resnet50,224,113251,9.04,1024,25.56,4.11,11.11\n"
    )
    refused(tmp_path, table, "--gpu", "T4", "--precision", "fp16")


SERIES = ("--gpu", "L4", "--precision", "fp16", "--runtime", "tensorrt")


def series(tmp_path: Path, *latency_ms: float) -> Path:
    """Plain CSV of batches 1, 8 and 32."""
    rows = "".join(f"{batch},{ms}\n" for batch, ms in zip((1, 8, 32), latency_ms, strict=True))
    (path := tmp_path / "own.csv").write_text(f"batch,latency_ms\n{rows}")
    return path


def test_times_in_another_unit_are_refused_or_doubted(tmp_path: Path) -> None:
    """ResNet-50 takes 8.2 GFLOP a picture, and an L4 reaches 121 TFLOP/s at fp16 (NVIDIA's data sheet)."""
    said = refused(tmp_path, series(tmp_path, 0.0035, 0.02, 0.07), *RESNET, *SERIES)
    assert "batch 32 in 0.07 ms is 3,7" in said
    assert "an L4 reaches 121 at fp16. Were 70.0 ms meant?" in said
    slow = imported(tmp_path / "slow", series(tmp_path, 3500, 20_000, 70_000), *RESNET, *SERIES)
    [doubt] = slow["doubts"]
    batch = int(doubt.split()[1])  # the one whose time is furthest from what is predicted
    meant = {1: "3.50", 8: "20.0", 32: "70.0"}[batch]
    assert f"was {meant} ms meant? Mend the unit" in doubt
    words = (series(tmp_path, 3500, 20_000, 70_000), *RESNET, *SERIES, "--out", tmp_path / "quiet", "-q")
    assert planner("profiles", "import", *words)[1] == f"Doubt: {doubt}.\n"
    assert imported(tmp_path / "right", series(tmp_path, 3.5, 20, 70), *RESNET, *SERIES)["doubts"] == []


@pytest.mark.parametrize(("ms", "share"), [(10.0, None), (6.0, "1.4"), (2.5, "3.3")])
def test_a_speed_above_the_peak_is_doubted_where_operations_may_be_left_out(
    tmp_path: Path, ms: float, share: str | None
) -> None:
    """VGG-16 takes 31 GFLOP a picture; an L4 reaches 30.3 TFLOP/s at fp32: 8.2 ms for 8, by Winograd a quarter."""
    words = ("--model", "vgg16", "--input", "224", "--gpu", "L4", "--precision", "fp32", "--runtime", "pytorch")
    imported(tmp_path, series(tmp_path, ms / 8, ms, 4 * ms), *words)
    doubts = find_profiles([tmp_path / "made"], CATALOG.gpus).profiles["vgg16", "L4", "fp32"].doubts
    assert len(doubts) == (share is not None)
    assert share is None or f"{share} times the arithmetic that an L4 reaches at fp32" in doubts[0]
    assert "TFLOP/s" in refused(tmp_path, series(tmp_path, 0.2, 1.6, 6.4), *words)


def test_what_is_said_of_a_model_whose_layers_are_shipped(tmp_path: Path) -> None:
    words = ("--model", "yolo11s", *SERIES)
    assert "input not said. Add --input 640." in refused(tmp_path, series(tmp_path, 3.5, 20, 70), *words)
    made = imported(tmp_path, series(tmp_path, 3.5, 20, 70), *words, "--input", 640)
    assert made["memory_evidence"] == Evidence.PREDICTED


def test_ultralytics_needs_a_runtime_and_what_ran_it(tmp_path: Path) -> None:
    table = DATA / "ultralytics.txt"
    assert "--runtime" in refused(tmp_path, table, "--gpu", "T4")
    said = refused(tmp_path, table, "--gpu", "T4", "--column", "ONNX")
    assert "was measured on a processor, and T4 is a GPU. Name a processor with --gpu" in said
    made = imported(tmp_path, table, "--gpu", "CPU-EPYC-Genoa-4c", "--column", "ONNX")
    assert made["memory_evidence"] == Evidence.PREDICTED  # of layers that are shipped
    assert (made["model"], made["runtime"], made["precision"]) == ("yolo11n", "onnxruntime", "fp32")
    assert made["latency_s"] == {"1": pytest.approx(20.08e-3)}


BENCHMARKS_LOG = """
Benchmarks complete for best.pt on coco8.yaml at imgsz=640 (240.43s)
                   Format Status❔  Size (MB)  metrics/mAP50-95(B)  Inference time (ms/im)
0                 PyTorch       ✅        5.9               0.0004                  133.23
1             TorchScript       ✅       11.9               0.0003                  182.20
2                    ONNX       ❎       11.7                  NaN                     NaN

Benchmarks complete for best.pt on coco8.yaml at imgsz=160 (165.65s)
                   Format Status❔  Size (MB)  metrics/mAP50-95(B)  Inference time (ms/im)
0                 PyTorch       ✅        5.9               0.0029                   21.50
1             TorchScript       ✅       11.8               0.0026                   58.76
2                    ONNX       ❎       11.5                  NaN                     NaN
"""
"""Of benchmarks.log in BecayeSoft/Guns-Detection-YOLOv8 on GitHub, which takes a table for each run."""


def test_ultralytics_log_of_several_runs_has_each_at_its_own_input(tmp_path: Path) -> None:
    (log := tmp_path / "benchmarks.log").write_text(BENCHMARKS_LOG, encoding="utf-8")
    words = ("--gpu", "T4", "--precision", "fp32", "--memory", "80 MB")
    assert "--input" in refused(tmp_path, log, *words, "--runtime", "pytorch")
    made = imported(tmp_path, log, *words, "--runtime", "pytorch", "--input", 160)
    assert made["latency_s"] == {"1": pytest.approx(21.5e-3)}
    assert "input 160" in str(made["source"])
    (again := tmp_path / "again.log").write_text(BENCHMARKS_LOG.replace("imgsz=640", "imgsz=160"), encoding="utf-8")
    assert "PyTorch, run 2" in refused(tmp_path, again, *words, "--runtime", "pytorch")
    made = imported(tmp_path / "b", again, *words, "--column", "PyTorch, run 1")
    assert made["latency_s"] == {"1": pytest.approx(133.23e-3)}


def test_ultralytics_table_of_polars(tmp_path: Path) -> None:
    """Of benchmarks.log in nikoskot/MutliObjectDetectionAndTracking on GitHub."""
    (log := tmp_path / "benchmarks.log").write_text(
        "$ yolo benchmark model=best.pt data=data.yaml quantize=16\n"
        "Benchmarks complete for best.pt on data.yaml at imgsz=640 (381.19s)\n"
        "Benchmarks legend:  - ✅ Success  - ❎ Export passed but validation failed  - ❌️ Export failed\n"
        "+---------------------------------------------------------------------------------------------+\n"
        "|     Format     Status❔   Size (MB)   metrics/mAP50-95(B)   Inference time (ms/im)   FPS    |\n"
        "+=============================================================================================+\n"
        "| 1   TensorRT   ✅         63.7        0.2376                9.95                     100.47 |\n"
        "+---------------------------------------------------------------------------------------------+\n",
        encoding="utf-8",
    )
    made = imported(tmp_path, log, "--gpu", "T4", "--memory", "80 MB")
    assert (made["runtime"], made["latency_s"]) == ("tensorrt", {"1": pytest.approx(9.95e-3)})
    assert made["precision"] == "fp16"


def test_weights_and_memory_of_a_shipped_model_need_not_be_said(tmp_path: Path) -> None:
    """BERT base has 109.5 M parameters (its model page), 2 bytes each at fp16."""
    (own := tmp_path / "bert.csv").write_text("batch,latency_ms\n1,2.1\n8,7.5\n")
    words = ("--model", "hf:bert-base-uncased", "--gpu", "L4", "--precision", "fp16", "--runtime", "pytorch")
    assert "input not said. Add --input seq128." in refused(tmp_path, own, *words)
    made = imported(tmp_path, own, *words, "--input", "seq128")
    assert made["weight_bytes"] == pytest.approx(2 * 109.5e6, rel=0.01)
    assert made["memory_evidence"] == Evidence.PREDICTED


def test_files_that_do_not_say_their_batch_are_told_it_one_by_one(tmp_path: Path) -> None:
    for name, ms in (("a.json", 5.0), ("b.json", 2.0)):
        row = {"startEnqMs": 1.0, "computeMs": ms, "latencyMs": ms}
        (tmp_path / name).write_text(json.dumps([row]))
    words = (tmp_path / "a.json", tmp_path / "b.json", *RESNET, "--gpu", "T4", "--precision", "fp16")
    assert "Write the batch of each file, in their order: --batch 1,8." in refused(tmp_path, *words)
    assert "names 3 batches for 2 files" in refused(tmp_path, *words, "--batch", "1,4,8")
    assert imported(tmp_path, *words, "--batch", "8,1")["latency_s"] == {"1": 0.002, "8": 0.005}


def test_a_batch_that_a_file_says_is_not_told_otherwise(tmp_path: Path, catalog: Path) -> None:
    said = refused(tmp_path, DATA / "trtexec.log", DATA / "trtexec.log", "--batch", "4,8", "--catalog", catalog)
    assert "says batch 4, and --batch 8" in said


def test_timm_table_and_json_say_the_same(tmp_path: Path) -> None:
    words = ("--model", "resnet50", "--input", "224", "--gpu", "RTX3090", "--precision", "amp")
    made = imported(tmp_path, DATA / "timm.csv", *words)
    assert made["latency_s"] == {"1024": pytest.approx(0.318095)}
    assert made["flops_per_sample"] == pytest.approx(2 * 4.11e9)
    columns, *rows = (DATA / "timm.csv").read_text().splitlines()
    row = next(
        dict(zip(columns.split(","), row.split(","), strict=True)) for row in rows if row.startswith("resnet50,224")
    )
    (printed := tmp_path / "timm.txt").write_text(f"--result\n{json.dumps({**row, 'infer_batch_size': 1024})}\n")
    (tmp_path / "made").rename(tmp_path / "table")
    again = imported(tmp_path, printed, *words)
    assert (again["latency_s"], again["workspace_bytes"]) == (made["latency_s"], made["workspace_bytes"])


def test_torch_benchmark_reads_batches_of_labels(tmp_path: Path) -> None:
    words = ("--model", "small", "--input", 64, "--gpu", "T4", "--precision", "fp32", "--runtime", "torch")
    sizes = ("--weights", "80 kB", "--memory", "4 MB")
    made = imported(tmp_path, DATA / "torch-benchmark.txt", *words, *sizes)
    assert made["latency_s"] == pytest.approx({"1": 0.011, "2": 0.0201, "4": 0.0493, "8": 0.0874})
    assert made["workspace_bytes"] == dict.fromkeys("1248", 4_000_000)


@pytest.mark.parametrize("name", ["vllm-serve.json", "aiperf.json", "mlperf-server.txt"])
def test_how_a_server_was_loaded_is_no_profile(tmp_path: Path, name: str) -> None:
    refused(tmp_path, DATA / name, *RESNET, "--gpu", "T4", "--precision", "fp16", "--batch", 1)


@pytest.mark.parametrize(
    ("start", "day"), [("2024-05-06T07:08:09", "2024-05-06"), ("soon", None), ("1712345678", None), (1712345678, None)]
)
def test_a_start_that_is_no_date_leaves_the_files_day(tmp_path: Path, start: object, day: str | None) -> None:
    run = {
        "request_latency": {"unit": "ms", "avg": 5.0},
        "input_config": {"perf_analyzer": {"concurrency": 1}, "batch_size": 4},
        "start_time": start,
    }
    (file := tmp_path / "run.json").write_text(json.dumps(run))
    os.utime(file, (0, 1_000_000_000))
    facts = ("--gpu", "T4", "--precision", "fp16", "--runtime", "tensorrt")
    made = imported(tmp_path, file, *RESNET, *facts, "--weights", "80 MB", "--memory", "4 MB")
    assert made["as_of"] == (day or "2001-09-09")


def test_fixed_batches_of_a_language_model_are_kept_with_a_doubt(tmp_path: Path) -> None:
    (run := tmp_path / "latency.json").write_text(json.dumps({"avg_latency": 1.2, "latencies": [1.1, 1.2, 1.3]}))
    words = ("--model", "llama", "--gpu", "A100-80GB", "--precision", "bf16", "--input", "in32-out128", "--batch", 8)
    made = imported(tmp_path, run, *words, "--weights", "16 GB", "--memory", "4 GB")
    assert made["latency_s"] == {"8": 1.2}
    assert made["doubts"]


@pytest.mark.parametrize("form", ["trtexec.log", "perf_analyzer.csv", "timm.csv", "mlperf-offline.txt"])
def test_option_that_says_what_the_file_does_not_say_twice(tmp_path: Path, form: str) -> None:
    """What is not said is asked for in one line that names all of it."""
    said = refused(tmp_path, DATA / form, "--model", "efficientnet_b0", "--input", "999")
    assert "--" in said


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"\x80\x04\x95 a pickle",
        b"PK\x03\x04 what torch.save writes",
        b"\xff\xfe\x00b\x00a",
        b"batch,latency_ms\n",
        b"batch,latency_ms\n1\n",
        b"batch,latency_ms\n1,nan\n",
        b"batch,latency_ms\n1,inf\n",
        b"batch,latency_ms\n1,-3\n",
        b"batch,latency_ms\n0,3\n",
        b"batch,latency_ms\n1.5,3\n",
        b"batch,latency_ms\n1,3\n1,9\n",
        b"batch,latency_ms,colour\n1,3,red\n",
        b"batch,batch,latency_ms\n1,1,3\n",
        b"batch,time\n1,3\n",
        b"batch,latency_ms,memory_mb\n1,3,10\n",  # less than its weights
        b'batch,latency_ms\n1,"3\n',
        b"[]",
        b"[1, 2]",
        b"[{}]",
        b'{"request_latency": 3}',
        b'[{"computeMs": "x"}]',
        b'[{"computeMs": 1.5}, {"computeMs": 1.',
        b'[{"count": 0}]',
        b'[{"count": 5}]',
        b'[{"infer_step_time": 1}]',
        b'{"avg_latency": NaN}',
        b'{"avg_latency": 1, "latencies": [3, 4]}',
        b"Times are in lightyears (ly).\n",
        b"[-- a --]\n   |  x\n1 threads: ---\n  big  |  3\n\nTimes are in milliseconds (ms).\n",
        b"MLPerf Results Summary\nScenario : Offline\n",
        b"MLPerf Results Summary\nScenario : Offline\nMode : PerformanceOnly\nSamples per second: -4\n",
        b"Concurrency,Inferences/Second\n1,5\n",
        b"Concurrency,Inferences/Second,Server Compute Infer,p99 latency\n1,5,900,100\n",
        b"&&&& RUNNING TensorRT.trtexec [TensorRT v8500] # trtexec\n",
        b"Inference time (ms/im)\n",
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (file := tmp_path / "x").write_bytes(content)
    sizes = ("--weights", "80 MB", "--memory", "4 MB") if b"memory" not in content else ("--weights", "80 MB")
    facts = (*RESNET, "--gpu", "T4", "--precision", "fp16", "--runtime", "tensorrt", "--batch", 1, "--gpu-count", 1)
    refused(tmp_path, file, *facts, *sizes)


@pytest.mark.parametrize("name", ["plain.csv", "perf_analyzer.csv", "timm.csv"])
@pytest.mark.parametrize(("between", "shown"), [(";", "';'"), ("\t", "'\\t'")])
def test_tables_as_spreadsheets_save_them(tmp_path: Path, name: str, between: str, shown: str) -> None:
    (file := tmp_path / name).write_text((DATA / name).read_text().replace(".", ",").replace(",", between))
    assert f"{name}:1: separates columns by {shown}. Save it as CSV with commas" in refused(tmp_path, file)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_tables_as_other_systems_save_them(tmp_path: Path, encoding: str, end: str) -> None:
    (file := tmp_path / "own.csv").write_bytes((DATA / "plain.csv").read_text().replace("\n", end).encode(encoding))
    made = imported(tmp_path, file, *RESNET, *SERIES, "--weights", "50 MB")
    assert made["latency_s"] == pytest.approx({"1": 0.0041, "2": 0.006, "4": 0.0101, "8": 0.0187})


def test_cut_short_anywhere(tmp_path: Path, catalog: Path) -> None:
    """A log is only believed to its end; of other files the rest may stand on its own, and nothing breaks."""
    text = (DATA / "trtexec.log").read_bytes()
    for end in range(0, text.rindex(b"&&&& PASSED"), 400):
        (file := tmp_path / "cut.log").write_bytes(text[:end])
        refused(tmp_path, file, "--catalog", catalog)


def test_too_large_or_not_there(tmp_path: Path) -> None:
    with (large := tmp_path / "large.csv").open("wb") as file:
        file.truncate(100_000_000)
    for path in (large, tmp_path / "missing", tmp_path):
        refused(tmp_path, path, *RESNET)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    words = (*RESNET, "--gpu", "T4", "--precision", "fp16", "--runtime", "tensorrt")
    imported(tmp_path, DATA / "plain.csv", *words)
    code, _, said = planner("profiles", "import", DATA / "plain.csv", *words, "--out", tmp_path / "made")
    assert (code, said.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("plain.csv", ("--input", 640, "--weights", "80 MB")),
        ("mlperf-singlestream.txt", ("--input", 224, "--weights", "26 MB", "--memory", "10 MB")),
    ],
)
def test_plans_rest_on_what_was_imported(tmp_path: Path, file: str, words: tuple[object, ...]) -> None:
    facts = ("--model", "detector", "--gpu", "T4", "--precision", "int8", "--runtime", "tensorrt")
    imported(tmp_path, DATA / file, *facts, *words)
    (scenario := tmp_path / "s.yaml").write_text(
        "models: [{name: detector, precision: int8, runtime: tensorrt, slo: {latency: 100 ms, attainment: 99 %}}]\n"
        "streams: [{model: detector, count: 20, rate: 10 fps}]\n"
        "buy: {gpus: [T4], own: [{name: box, gpu: T4, price: $1/h}]}\nhorizon: 5 s\n"
    )
    code, shown, said = planner(
        "plan", scenario, "--profiles", tmp_path / "made", "--format", "json", "-o", tmp_path / "plan.json", "-q"
    )
    assert code == 0, said
    best = json.loads(shown)["recommendation"]
    assert [m["evidence"] for m in best["models"]] == [Evidence.ELSEWHERE]
    assert [gpu["kind"] for gpu in best["gpus"]] == ["T4"]


def test_memory_of_the_largest_batch_is_the_most_that_smaller_ones_hold(tmp_path: Path) -> None:
    (table := tmp_path / "t.csv").write_text("batch,latency_ms\n1,5\n8,20\n")
    words = ("--gpu", "T4", "--precision", "fp16", "--runtime", "tensorrt", "--weights", "80 MB", "--memory", "40 MB")
    made = imported(tmp_path, table, "--model", "detector", "--input", 640, *words)
    assert made["workspace_bytes"] == {"1": 40_000_000, "8": 40_000_000}
    assert made["memory_evidence"] == Evidence.ELSEWHERE


def test_plan_of_two_tools_files_on_one_gpu(tmp_path: Path) -> None:
    """MLPerf's stream takes one sample at a time: 2.014816 ms each, at most 496 a second on one T4.

    100 rps of it keep a T4 busy for 20 %, and 200 rps of a detector in batches of 8 at 18.7 ms for 47 %: one T4 does.
    Of 600 rps of MLPerf's alone one T4 is too few, two are enough.
    """
    on_t4 = ("--gpu", "T4", "--precision", "int8", "--runtime", "tensorrt", "--out", tmp_path / "made")
    files = (
        ("mlperf-singlestream.txt", *RESNET),
        ("plain.csv", "--model", "detector", "--input", 640, "--weights", "80 MB"),
    )
    for file, *words in files:
        assert planner("profiles", "import", DATA / file, *words, *on_t4)[0] == 0
    for rates, gpus in (((100, 200), 1), ((600, 1), 2)):
        (scenario := tmp_path / "s.yaml").write_text(
            "models:\n"
            "- {name: resnet50, precision: int8, runtime: tensorrt, slo: {latency: 200 ms, attainment: 95 %}}\n"
            "- {name: detector, precision: int8, runtime: tensorrt, slo: {latency: 200 ms, attainment: 95 %}}\n"
            f"streams: [{{model: resnet50, rate: {rates[0]}/s}}, {{model: detector, rate: {rates[1]}/s}}]\n"
            "buy: {gpus: [T4], own: [{name: box, gpu: T4, price: $1/h, count: 2}]}\nhorizon: 5 s\n"
        )
        code, shown, said = planner(
            "plan", scenario, "--profiles", tmp_path / "made", "--format", "json", "-o", tmp_path / "plan.json", "-q"
        )
        assert code == 0, said
        best = json.loads(shown)["recommendation"]
        assert {m["evidence"] for m in best["models"]} == {
            Evidence.ELSEWHERE,
            Evidence.PREDICTED,
        }  # MLPerf says no memory
        assert [gpu["kind"] for gpu in best["gpus"]] == ["T4"] * gpus


def test_exported_profiles_come_back_as_they_were(tmp_path: Path) -> None:
    words = ("--model", "detector", "--gpu", "T4", "--precision", "fp16", "--runtime", "tensorrt", "--input", 640)
    first = imported(tmp_path, DATA / "plain.csv", *words, "--weights", "80 MB")
    code, table, _ = planner("profiles", "export", "detector", "--profiles", tmp_path / "made")
    assert code == 0
    (file := tmp_path / "detector.csv").write_text(table)
    (tmp_path / "made").rename(tmp_path / "before")
    assert imported(tmp_path, file) == first


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("batch", None),
        ("weight_bytes", '"many"'),
        ("weight_bytes", "true"),
        ("weight_bytes", "[1]"),
        ("layers", "5"),
        ("layers", "[5]"),
        ("layers", "[{}]"),
        ("load", "5"),
        ("model.x", "5"),
    ],
)
def test_exported_profiles_that_were_damaged_are_refused(tmp_path: Path, column: str, cell: str | None) -> None:
    words = ("--model", "detector", "--gpu", "T4", "--precision", "fp16", "--runtime", "tensorrt", "--input", 640)
    imported(tmp_path, DATA / "plain.csv", *words, "--weights", "80 MB")
    rows = list(
        csv.DictReader(planner("profiles", "export", "detector", "--profiles", tmp_path / "made")[1].split("\n"))
    )
    for row in rows:
        row.pop(column, None)
        if cell is not None:
            row[column] = cell
    (file := tmp_path / "x.csv").write_text(csv_text(list(rows[0]), (row.values() for row in rows)))
    refused(tmp_path, file)


def test_every_shipped_profile_comes_back(tmp_path: Path) -> None:
    for path in sorted(set(SHIPPED.rglob("*.json")) - set(SHIPPED.rglob("device.json"))):
        raw = {key: value for key, value in json.loads(path.read_text()).items() if key != "measured"}
        said = TextFile("x.csv", plain_csv.text_of(raw))
        (again := tmp_path / "again.json").write_text(lines_json(plain_csv.profile_json(said)))
        (before := tmp_path / "before.json").write_text(lines_json(raw))
        assert read_profile(again, CATALOG.gpus) == read_profile(before, CATALOG.gpus), path


def test_published_figures_are_exported(tmp_path: Path) -> None:
    code, table, said = planner("profiles", "export", "resnet34", "--gpu", "T4", "--precision", "fp16")
    assert code == 0, said
    (file := tmp_path / "resnet34.csv").write_text(table)
    imported(tmp_path, file)
    known = find_profiles([tmp_path / "made"], CATALOG.gpus).get("resnet34", "T4", "fp16", "paddle-tensorrt")
    assert known
    assert known.latency_evidence is Evidence.PUBLISHED


def test_excerpts_of_real_times_and_layers_of_trtexec(tmp_path: Path) -> None:
    """Rows of tests/inputs/mobilenet.qat.onnx.engine.*.json in NVIDIA/TensorRT's trt-engine-explorer."""
    said = ("--model", "mobilenet_v2", "--input", "224", "--gpu", "A100-40GB", "--precision", "int8", "--batch", "32")
    times, layers = tmp_path / "times.json", tmp_path / "layers.json"
    computed = (0.459041, 0.442369, 0.444799)
    rows = [{"startEnqMs": 12.6384, "h2dMs": 0, "computeMs": ms, "d2hMs": 0, "latencyMs": ms} for ms in computed]
    times.write_text(json.dumps(rows))
    layers.write_text(
        '[\n  { "count" : 4216 }\n, { "name" : "QuantizeLinear_2", "timeMs" : 51.4526, "averageMs" : 0.0122041, '
        '"percentage" : 1.88608 }\n, { "name" : "Conv_12 + PWN(Clip_16)", "timeMs" : 45.3071, "averageMs" : 0.0107465, '
        '"percentage" : 1.66081 }\n]\n'
    )
    sizes = ("--weights", "14 MB", "--memory", "100 MB")
    of_times = imported(tmp_path / "a", times, *said, *sizes)
    assert of_times["latency_s"] == {"32": pytest.approx(sum(computed) / 3e3)}
    of_layers = imported(tmp_path / "b", layers, *said, *sizes)
    assert of_layers["latency_s"] == {"32": pytest.approx(22.9506e-6)}
