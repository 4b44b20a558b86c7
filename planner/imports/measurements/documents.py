"""JSON: timm's benchmark, vLLM's, GenAI-Perf's and AIPerf's."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from planner.imports.measurements.record import Measurements, ToolMeasurement, agree, number, whole
from planner.imports.measurements.tables import ALONE, timm_point
from planner.imports.texts import TextFile

SERVED = ("ttft", "tpot", "itl", "time_to_first_token", "inter_token_latency", "tokens_per_second")
"""Parts of keys that say how a language model was served."""
NOT_FIXED = (
    "says how a language model is served (times to the first token and between tokens), of requests that join and"
    " leave batches; a profile holds the time of a batch of fixed work"
)
FIXED = "Name what `vllm bench latency` wrote, which times batches of one length"
STATIC = (
    "Batches are of prompts and answers of one length, and start and end together; a server joins others as they run."
)
VLLM_KEYS = frozenset({"avg_latency", "mean_ttft_ms", "tokens_per_second", "request_throughput", "mean_e2el_ms"})
DENSE = "Name a run of one client at a time, or time the engine itself"


def unwrapped(data: Any) -> Any:
    """AIPerf's first versions kept their metrics under `records`."""
    metrics = data.get("records") if isinstance(data, dict) else None
    return {**data, **metrics} if isinstance(metrics, dict) else data


def read_timm_json(file: TextFile, data: Any) -> Measurements:
    """What benchmark.py prints below `--result`."""
    results = data if isinstance(data, list) else [data]
    if failed := next((one for one in results if "error" in one), None):
        raise file.refuse(f"holds an error of {failed.get('model', 'a model')}", "Leave that model out")
    return Measurements(tool="timm benchmark.py", points=tuple(timm_point(file, one) for one in results))


def read_vllm(file: TextFile, data: Mapping[str, Any]) -> Measurements:
    """`vllm bench latency`: the same batch again and again, from prompts to the ends of its answers."""
    if "avg_latency" not in data:
        raise file.refuse(NOT_FIXED, FIXED)
    mean_s = number(file, data["avg_latency"], "avg_latency")
    runs = data.get("latencies")
    spread = None
    if isinstance(runs, list) and runs:
        times = [number(file, one, "latencies") for one in runs]
        found = sum(times) / len(times)
        agree(file, mean_s, found, "avg_latency in s")
        spread = (sum((one - found) ** 2 for one in times) / len(times)) ** 0.5 / found
    point = ToolMeasurement(latency_s=mean_s, spread=spread, facts={"runtime": "vllm"})
    return Measurements(tool="vllm bench latency", points=(point,), doubts=(STATIC,))


def read_genai_perf(file: TextFile, data: Mapping[str, Any]) -> Measurements:
    """GenAI-Perf's or AIPerf's export; of embeddings and rankings, whose requests are fixed work, for one client."""
    latency = data.get("request_latency")
    if not isinstance(latency, dict):
        raise file.refuse("has no request_latency", "Name profile_export_genai_perf.json")
    if any(part in key for key in data for part in SERVED):
        raise file.refuse(NOT_FIXED, FIXED)
    config = _flat(data.get("input_config", {}))
    clients = str(_ending(config, "concurrency") or "unsaid")
    if clients != ALONE:
        raise file.refuse(f"is of {clients} clients at once, whose requests wait for each other", DENSE)
    if latency.get("unit") not in ("ms", None):
        raise file.refuse(f"has request_latency in {latency['unit']}", "Export it in ms")
    model = _ending(config, "model_names", "model", "models.items.0.name")
    version = data.get("aiperf_version")
    batch = next((value for key, value in config.items() if "batch_size" in key), None)
    point = ToolMeasurement(
        batch=None if batch is None else whole(file, batch, "batch_size"),
        latency_s=number(file, latency.get("avg"), "request_latency.avg") / 1e3,
        facts={"model": str(model)} if model else {},
    )
    return Measurements(
        tool=f"AIPerf {version}" if version else "GenAI-Perf",
        as_of=_day(data.get("start_time")),
        points=(point,),
        assumptions=("Times are whole requests of one client, its network too.",),
        doubts=_failed(file, data),
    )


def _failed(file: TextFile, data: Mapping[str, Any]) -> tuple[str, ...]:
    """A doubt where requests failed, whose times are not in the mean."""
    errors = data.get("error_request_count")
    count = errors.get("avg") if isinstance(errors, dict) else None
    return (f"{whole(file, count, 'error_request_count')} requests failed: measure it again.",) if count else ()


def _ending(config: Mapping[str, Any], *ends: str) -> Any:
    """The first value, or the first of a list, whose key ends so."""
    value = next((value for key, value in config.items() if key.endswith(ends)), None)
    return value[0] if isinstance(value, list) and value else value


def _day(written: object) -> str:
    """The day of a time in ISO's form; empty where it is none, as of a count of seconds."""
    try:
        return datetime.fromisoformat(str(written)).date().isoformat() if isinstance(written, str) else ""
    except ValueError:
        return ""


def _flat(config: object, prefix: str = "") -> dict[str, Any]:
    """Mappings in mappings and lists by their keys and places joined with dots; other lists stay."""
    if isinstance(config, list) and config and all(isinstance(one, Mapping) for one in config):
        config = {str(place): one for place, one in enumerate(config)}
    if not isinstance(config, Mapping):
        return {prefix.rstrip("."): config}
    return {key: value for name, inner in config.items() for key, value in _flat(inner, f"{prefix}{name}.").items()}
