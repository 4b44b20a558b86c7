"""Files as tools write them become profiles, and plans rest on those; what is no time of a batch ends in a line.

`aiperf-embeddings.json` is cut from what AIPerf 0.13.0 wrote here, of a server on a processor; GENAI_PERF from what
GenAI-Perf 0.0.16 wrote of requests that we recorded in perf_analyzer's form, for its program is not to be had alone.
Other figures are of:
- results/benchmark-infer-* in huggingface/pytorch-image-models (Apache-2.0), on an RTX 4090 and an RTX 5090;
- docs/measurements_metrics.md and the columns of src/report_writer.cc in triton-inference-server/perf_analyzer at
  263c5f6e (BSD);
- examples/artifacts/run1 in ai-dynamo/aiperf at 7c31f579 (Apache-2.0);
- results/latency_llama8B_tp1.json in zhangxinyuehfad/vllm-benchmarks at 85d19684, without a licence: figures alone;
- the README of the GPU profiles in zhuhanqing/Lightening-Transformer: DeiT-B on an A100, figures alone.
"""

import json
from pathlib import Path

import pytest
from support import paths
from support.commands import planner
from support.imports import imported, refused

DATA = paths.DATA / "imports"
TIMM = (
    "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count,infer_gmacs,infer_macts\n"
)
RTX4090 = f"{TIMM}resnet50,160,8139.65,125.774,1024,25.56,2.1,5.67\nresnet50,224,4217.6,242.763,1024,25.56,4.11,11.11\n"
RTX5090 = f"{TIMM}resnet50,160,24613.55,41.587,1024,25.56,2.1,5.67\n"
PERF = (
    "{load},Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
    "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n"
    "1,69.2,225,2148,64,206,11781,19,0,13891,18795,19753,21018\n"
    "3,84.2,237,1768,21673,209,11742,17,0,35398,43984,47085,51701\n"
)
VLLM = {
    "avg_latency": 7.419569773475329,
    "latencies": [7.438288155943155, 7.41211018525064, 7.545190565288067, 7.521874003112316, 7.140739871188998],
    "percentiles": {"50": 7.438288155943155, "99": 7.734547998122871},
}
TORCH = """y = model(x): batch_size 1 method pre-ln
  Median: 4.37 ms
  IQR:    0.06 ms (4.36 to 4.42)
[-------------------  ------------------]
                                  |  Base
1 threads: ------------------------------
      batch_size 1 method pre-ln  |  4.4{spread}

Times are in milliseconds (ms).
"""
GENAI_PERF = {
    "request_throughput": {"unit": "requests/sec", "avg": 40.60045787328769},
    "request_latency": {"unit": "ms", "avg": 24.59378935, "p50": 24.352207, "p99": 30.75734656, "std": 2.8630021},
    "request_count": {"unit": "count", "avg": 20.0},
    "input_config": {
        "model_names": ["bge-small"],
        "analyze": {"sweep_parameters": {"concurrency": {"min": 1, "max": 1024}}},
        "endpoint": {"type": "embeddings", "custom": "v1/embeddings"},
        "perf_analyzer": {"stimulus": {"concurrency": 1}, "measurement": {"mode": "interval", "num": 2000}},
        "input": {"batch_size": 8, "audio": {"batch_size": 1}, "image": {"batch_size": 1}},
    },
}
RECORDS = {
    "records": {
        "ttft": {"tag": "ttft", "unit": "ms", "avg": 2343.219436988764},
        "request_latency": {"tag": "request_latency", "unit": "ms", "avg": 9059.654633033708},
    },
    "input_config": {"endpoint": {"model_names": ["openai/gpt-oss-20b"]}, "loadgen": {"concurrency": 100}},
}
RECORDS_TABLE = (
    "Metric,avg,min,max,p1,p5,p25,p50,p75,p90,p95,p99,std\n"
    "Request Latency (ms),9059.65,7936.97,9299.77,8180.93,8840.61,8962.91,9097.35,9212.62,9277.60,9288.61,9297.61,"
    "220.22\n"
    "\nMetric,Value\nRequest Count,89.00\n"
)


def planned(tmp_path: Path, made: dict[str, object], rate: float) -> int:
    """How many GPUs a plan on that profile needs; requests may wait for five of its longest batches."""
    gpu, times = made["gpu"], made["latency_s"]
    assert isinstance(times, dict)
    longest_s = max(times.values())
    model = {key: made[key] for key in ("precision", "runtime") if key in made} | {
        "name": made["model"],
        "slo": {"latency": f"{5 * longest_s} s", "attainment": "95 %"},
    }
    question = {
        "models": [model],
        "streams": [{"model": made["model"], "rate": f"{rate}/s"}],
        "buy": {"gpus": [gpu], "own": [{"name": "box", "gpu": gpu, "price": "$1/h", "count": 4}]},
        "horizon": f"{max(5.0, 60 * longest_s)} s",
    }
    (scenario := tmp_path / "s.yaml").write_text(json.dumps(question))
    code, shown, said = planner("plan", scenario, "--profiles", tmp_path / "made", "--format", "json", "-q")
    assert code == 0, said
    return len(json.loads(shown)["recommendation"]["gpus"])


def test_aiperf_of_embeddings(tmp_path: Path) -> None:
    """8 texts in 71.8 ms: 111 a second at most, so that 150 a second need two GPUs."""
    words = ("--gpu", "T4", "--precision", "fp16", "--runtime", "onnxruntime", "--input", "seq32")
    made = imported(tmp_path, DATA / "aiperf-embeddings.json", *words, "--weights", "67 MB", "--memory", "40 MB")
    assert (made["model"], made["as_of"]) == ("bge-small", "2026-11-25")
    assert made["latency_s"] == {"8": pytest.approx(0.0717674922)}
    assert "AIPerf 0.13.0" in str(made["source"])
    assert [planned(tmp_path, made, rate) for rate in (50, 150)] == [1, 2]


def test_aiperf_of_several_clients_or_with_failures(tmp_path: Path) -> None:
    run = json.loads((DATA / "aiperf-embeddings.json").read_text())
    words = ("--gpu", "T4", "--precision", "fp16", "--runtime", "onnxruntime", "--input", "seq32")
    sizes = ("--weights", "67 MB", "--memory", "40 MB")
    (file := tmp_path / "run.json").write_text(json.dumps({**run, "error_request_count": {"avg": 3.0}}))
    assert imported(tmp_path, file, *words, *sizes)["doubts"] == ["3 requests failed: measure it again."]
    run["input_config"]["phases"][0]["concurrency"] = 16
    file.write_text(json.dumps(run))
    assert "is of 16 clients at once" in refused(tmp_path, file, *words, *sizes)


def test_genai_perf_of_embeddings(tmp_path: Path) -> None:
    """8 texts in 24.6 ms on average, not at a percentile: 325 a second at most."""
    (run := tmp_path / "profile_export_genai_perf.json").write_text(json.dumps(GENAI_PERF))
    words = ("--gpu", "T4", "--precision", "fp16", "--runtime", "onnxruntime", "--input", "seq32")
    made = imported(tmp_path, run, *words, "--weights", "67 MB", "--memory", "40 MB")
    assert (made["model"], made["latency_s"]) == ("bge-small", {"8": pytest.approx(0.02459378935)})
    assert [planned(tmp_path, made, rate) for rate in (150, 450)] == [1, 2]
    run.write_text(json.dumps(GENAI_PERF).replace('"stimulus": {"concurrency": 1}', '"stimulus": {"concurrency": 4}'))
    assert "is of 4 clients at once" in refused(tmp_path, run, *words)


def test_aiperf_of_a_language_model_in_the_form_of_its_first_versions(tmp_path: Path) -> None:
    (run := tmp_path / "profile_export_aiperf.json").write_text(json.dumps(RECORDS))
    assert "says how a language model is served" in refused(tmp_path, run, "--gpu", "T4")
    (table := tmp_path / "profile_export_aiperf.csv").write_text(RECORDS_TABLE)
    assert "profile_export_aiperf.json beside it" in refused(tmp_path, table, "--gpu", "T4")


def test_vllm_bench_latency(tmp_path: Path) -> None:
    """A batch of 8 in 7.42 s: 1.08 requests a second, of which 1.8 need two GPUs."""
    (run := tmp_path / "latency_llama8B_tp1.json").write_text(json.dumps(VLLM))
    words = ("--model", "llama-8b", "--gpu", "A100-80GB", "--precision", "bf16", "--input", "in32-out128", "--batch", 8)
    made = imported(tmp_path, run, *words, "--weights", "16 GB", "--memory", "4 GB")
    assert made["latency_s"] == {"8": pytest.approx(7.4196, abs=1e-4)}
    assert [planned(tmp_path, made, rate) for rate in (0.5, 1.8)] == [1, 2]
    run.write_text(json.dumps({**VLLM, "avg_latency": 9.9}))
    assert "says avg_latency in s twice, and not alike" in refused(tmp_path, run, *words)


def test_perf_analyzer_of_several_batches_in_a_file_each(tmp_path: Path) -> None:
    (one := tmp_path / "b1.csv").write_text(PERF.format(load="Concurrency"))
    (two := tmp_path / "b8.csv").write_text(
        PERF.format(load="Concurrency").replace("11781", "20500").replace("21018", "31018")
    )
    words = ("--model", "inception", "--gpu", "V100", "--precision", "fp32", "--runtime", "triton-tensorflow")
    sizes = ("--input", 299, "--weights", "95 MB", "--memory", "200 MB")
    made = imported(tmp_path, one, two, *words, *sizes, "--batch", "1,8")
    assert made["latency_s"] == {"1": pytest.approx(0.011781), "8": pytest.approx(0.0205)}
    assert [planned(tmp_path, made, rate) for rate in (100, 500)] == [1, 2]
    one.write_text(PERF.format(load="Request Rate"))
    assert "has no row of Concurrency 1" in refused(tmp_path, one, *words, *sizes, "--batch", 1)
    one.write_text(PERF.format(load="Concurrency").replace("11781", "31781"))
    assert "b1.csv:2: computes longer than p99 latency" in refused(tmp_path, one, *words, *sizes, "--batch", 1)


def test_timm_says_precision_and_compiler_by_the_names_of_its_files(tmp_path: Path) -> None:
    (eager := tmp_path / "benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv").write_text(RTX4090)
    words = ("--model", "resnet50", "--gpu", "RTX4090")
    assert "says precision `amp`" in refused(tmp_path, eager, *words, "--input", 224, "--precision", "fp32")
    made = imported(tmp_path, eager, *words, "--input", 224)
    assert (made["precision"], made.get("runtime")) == ("amp", None)
    assert made["latency_s"] == {"1024": pytest.approx(0.242763)}
    assert [planned(tmp_path, made, rate) for rate in (2000, 6000)] == [1, 2]
    (compiled := tmp_path / "benchmark-infer-amp-nchw-pt291-cu130-5090-dynamo.csv").write_text(RTX5090)
    (tmp_path / "made").rename(tmp_path / "eager")
    made = imported(tmp_path, compiled, "--gpu", "RTX5090")
    assert (made["model"], made["runtime"]) == ("resnet50.160px", "torch-compile")
    eager.write_text(RTX4090.replace("242.763", "24.2763"))
    said = refused(tmp_path, eager, *words, "--input", 224)
    assert f"{eager.name}:3: says the step time in s twice" in said


def test_torch_benchmark_with_what_stands_around_its_table(tmp_path: Path) -> None:
    """DeiT-B takes a picture in 4.4 ms: 227 a second at most."""
    words = ("--model", "deit_base", "--input", 224, "--gpu", "A100-40GB", "--precision", "amp", "--runtime", "torch")
    sizes = ("--weights", "346 MB", "--memory", "100 MB")
    (table := tmp_path / "run.txt").write_text(TORCH.format(spread=" (+-0.06)"))
    made = imported(tmp_path, table, *words, *sizes)
    assert made["latency_s"] == {"1": pytest.approx(4.4e-3)}
    assert [planned(tmp_path, made, rate) for rate in (100, 300)] == [1, 2]
    other = TORCH.format(spread="").replace("[---", "[--- backward").replace("4.4", "9.1")
    table.write_text(TORCH.format(spread="") + other)
    assert "Name one with --column" in refused(tmp_path, table, *words, *sizes)
    table.write_text(TORCH.format(spread="").replace("4.4", "fast"))
    assert "run.txt:7: Base must be a number" in refused(tmp_path, table, *words, *sizes)
