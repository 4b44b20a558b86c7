"""Measures the SLOs of a plan that was deployed: sends the planned load, and compares.

Needs Python 3.10 and nothing else. `slo.json` beside it holds the load and the SLOs. The load is open: a request is
sent when it is due, however long others take, and its latency counts from when it was due. It speaks the HTTP protocol
of Triton and KServe (version 2), with zeros for input: one sample a request.

Exit code 0: every model meets its SLO; 4: one does not; 2: it could not be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import random
import ssl
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

BYTES = {"FP32": 4, "FP16": 2, "BF16": 2, "FP64": 8, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "BOOL": 1}
BYTES.update({"UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "BYTES": 4})
"""Size of one value; an empty text is its length, which is four bytes."""
PATIENCE_S = 10.0
"""How long an answer is waited for beyond the longest SLO; then it is lost."""


class Unmeasurable(Exception):
    """It cannot be measured; one line that says why."""


def arrivals(source: dict[str, Any], seconds: float, rng: random.Random) -> list[float]:
    """When the requests of a group of sources are due, in seconds from the start."""
    count, rate_rps = source["count"], source["rate_rps"]
    if source["kind"] == "poisson":
        return gaps(lambda: rng.expovariate(count * rate_rps), seconds)
    times = []
    for number in range(count):
        if source["kind"] == "gamma":
            shape = source["cv"] ** -2
            times += gaps(lambda shape=shape: rng.gammavariate(shape, 1 / (shape * rate_rps)), seconds)
        else:
            phases = {"aligned": 0.0, "spread": number / (count * rate_rps), "random": rng.random() / rate_rps}
            times += frames(phases[source["phase"]], source, seconds, rng)
    return [due for due in times if due < seconds]


def frames(phase: float, source: dict[str, Any], seconds: float, rng: random.Random) -> list[float]:
    """Frames of one camera, each late by its jitter."""
    number = max(0, math.ceil((seconds - phase) * source["rate_rps"]))
    return [phase + i / source["rate_rps"] + abs(rng.gauss(0.0, source["jitter_s"])) for i in range(number)]


def gaps(draw: Any, seconds: float) -> list[float]:
    """Times with gaps that are drawn; the first is a random part of one, as if the source had always been there."""
    times, now = [], draw() * random.Random(draw()).random()
    while now < seconds:
        times.append(now)
        now += draw()
    return times


class Endpoint:
    """A server, and the connections to it that are kept open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if not parts.hostname:
            raise Unmeasurable(f"--url {url}: is no address. Write e.g. http://10.0.0.4:8000.")
        self.host, self.base = parts.hostname, parts.path.rstrip("/")
        self.secure = ssl.create_default_context() if parts.scheme == "https" else None
        self.port = parts.port or (443 if self.secure else 8000)
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
        """All bytes of a request."""
        lines = {"Host": f"{self.host}:{self.port}", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{method} {self.base}{path} HTTP/1.1\r\n{head}\r\n".encode() + body

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer. A kept connection that the server has closed meanwhile is replaced once."""
        while self.idle:
            connection = self.idle.pop()
            try:
                return await self.exchange(connection, request)
            except (ConnectionError, asyncio.IncompleteReadError):
                connection[1].close()
        return await self.exchange(await asyncio.open_connection(self.host, self.port, ssl=self.secure), request)

    async def exchange(self, connection: Any, request: bytes) -> tuple[int, bytes]:
        """One request and its answer on one connection."""
        reader, writer = connection
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
            }
            body = await read_body(reader, fields)
        except BaseException:
            writer.close()
            raise
        if fields.get("connection", "").lower() == "close":
            writer.close()
        else:
            self.idle.append(connection)
        return int(head[0].split()[1]), body


async def read_body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes:
    """The body of an answer, whole or in chunks."""
    if fields.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(fields.get("content-length", 0)))
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)


async def payload(endpoint: Endpoint, name: str, path: str, dim: int | None) -> bytes:
    """The request that asks a model for one sample, made from what its server says of its inputs."""
    try:
        status, body = await asyncio.wait_for(endpoint.ask(endpoint.request("GET", path, {})), PATIENCE_S)
    except (OSError, EOFError, ValueError, asyncio.TimeoutError) as error:  # noqa: UP041 - two things before Python 3.11
        why = str(error) or type(error).__name__
        raise Unmeasurable(f"{name}: no answer from {endpoint.host}:{endpoint.port}: {why}") from error
    if status != 200:
        raise Unmeasurable(f"{name}: {endpoint.host}:{endpoint.port}{path}: status {status}: {body[:200]!r}")
    inputs, data = [], b""
    for tensor in json.loads(body)["inputs"]:
        shape = sample_shape(name, tensor, dim)
        size = math.prod(shape) * BYTES[tensor["datatype"]]
        about = {"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape}
        inputs.append({**about, "parameters": {"binary_data_size": size}})
        data += bytes(size)
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return endpoint.request("POST", f"{path}/infer", headers, head + data)


def sample_shape(name: str, tensor: dict[str, Any], dim: int | None) -> list[int]:
    """The shape of an input with a batch of one; other open sizes are `dim`."""
    first, *others = (int(size) for size in tensor["shape"])
    if dim is None and -1 in others:
        shown = "x".join(map(str, tensor["shape"]))
        raise Unmeasurable(f"{name}: input {tensor['name']} is {shown}: sizes of -1 are yours to choose, with --dim.")
    return [1 if first == -1 else first, *(dim if size == -1 and dim else size for size in others)]


@dataclass
class RequestOutcome:
    """What became of a request, in seconds from the start."""

    due: float
    sent: float
    done: float = math.inf
    """Infinite where no good answer came."""


async def measure(
    plan: dict[str, Any], urls: dict[str, str], options: argparse.Namespace
) -> dict[str, list[RequestOutcome]]:
    """Send the load and wait for the answers; outcomes by model, without the warm-up."""
    rng = random.Random(options.seed)
    endpoints = {name: Endpoint(url) for name, url in urls.items()}
    outcomes: dict[str, list[RequestOutcome]] = {model["name"]: [] for model in plan["models"]}
    schedule: list[tuple[float, str, Endpoint, bytes]] = []
    for model in plan["models"]:
        schedule += await requests(model, endpoints, options, rng)
    schedule.sort(key=lambda item: item[0])
    longest_s = max(model["slo_s"] for model in plan["models"])
    await send(schedule, outcomes, options.warmup, longest_s + PATIENCE_S)
    return outcomes


async def requests(
    model: dict[str, Any], endpoints: dict[str, Endpoint], options: argparse.Namespace, rng: random.Random
) -> list[tuple[float, str, Endpoint, bytes]]:
    """All requests of one model: when each is due, and where it goes."""
    routes = [endpoints[route["endpoint"]] for route in model["routes"]]
    shares = [route["share"] for route in model["routes"]]
    bodies = [await payload(endpoint, model["name"], model["path"], options.dim) for endpoint in routes]
    lasts_s = options.warmup + options.seconds
    due = [time_s for source in model["sources"] for time_s in arrivals(source, lasts_s, rng)]
    schedule = []
    for time_s in due:
        (chosen,) = rng.choices(range(len(routes)), shares)
        schedule.append((time_s, model["name"], routes[chosen], bodies[chosen]))
    return schedule


async def send(
    schedule: list[Any], outcomes: dict[str, list[RequestOutcome]], warmup_s: float, patience_s: float
) -> None:
    """Send every request when it is due."""
    start = time.perf_counter()
    running = set()
    for due, name, endpoint, request in schedule:
        while (wait_s := start + due - time.perf_counter()) > 0:
            await asyncio.sleep(wait_s - 0.002 if wait_s > 0.003 else 0)  # sleeping overshoots by about 1 ms
        record = outcomes[name] if due >= warmup_s else []
        task = asyncio.ensure_future(ask(endpoint, request, start, due, record))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.sleep(0)
    if running:
        _, late = await asyncio.wait(running, timeout=patience_s)
        for task in late:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*late, return_exceptions=True)


async def ask(endpoint: Endpoint, request: bytes, start: float, due: float, record: list[RequestOutcome]) -> None:
    """One request; what comes of it is kept even where nothing does."""
    outcome = RequestOutcome(due, time.perf_counter() - start)
    record.append(outcome)
    with contextlib.suppress(OSError, EOFError, ValueError, IndexError):
        status, _ = await endpoint.ask(request)
        if status == 200:
            outcome.done = time.perf_counter() - start


def quantile(ascending: list[float], share: float) -> float:
    """On a line between neighbours; NaN of nothing."""
    if not ascending:
        return math.nan
    place = share * (len(ascending) - 1)
    low, high = ascending[math.floor(place)], ascending[math.ceil(place)]
    return low + (place - math.floor(place)) * (high - low)


def interval(hits: int, count: int) -> tuple[float, float]:
    """95 % interval of a share, were the requests independent of each other (Wilson 1927)."""
    z = 1.96
    centre, spread = hits + z * z / 2, z * math.sqrt(hits * (count - hits) / count + z * z / 4)
    return max(0.0, (centre - spread) / (count + z * z)), min(1.0, (centre + spread) / (count + z * z))


def judge(model: dict[str, Any], record: list[RequestOutcome]) -> dict[str, Any]:
    """Figures of a model that were measured, beside its SLO."""
    latencies_s = sorted(one.done - one.due for one in record if one.done < math.inf)
    count = len(record)
    if not count:
        raise Unmeasurable(f"{model['name']}: no request was due. Measure longer, with --seconds.")
    hits = sum(latency_s <= model["slo_s"] for latency_s in latencies_s)
    low, high = interval(hits, count)
    lags_s = sorted(one.sent - one.due for one in record)
    return {
        "model": model["name"],
        "requests": count,
        "lost": count - len(latencies_s),
        "attainment": hits / count,
        "attainment_low": low,
        "attainment_high": high,
        "attainment_target": model["slo_attainment_target"],
        "slo_s": model["slo_s"],
        "p50_s": quantile(latencies_s, 0.5),
        "p50_planned_s": model["p50_s"],
        "p99_s": quantile(latencies_s, 0.99),
        "p99_planned_s": model["p99_s"],
        "sender_delay_p99_s": quantile(lags_s, 0.99),
        "slo_met": hits / count >= model["slo_attainment_target"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The comparison for people."""
    head = ["model", "requests", "lost", "on time %", "95 % interval", "SLO", "p50 ms", "plan", "p99 ms", "plan", ""]
    cells = [head, *map(cells_of, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *figures, last in cells:
        padded = [text.rjust(width) for text, width in zip(figures, widths[1:-1], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *padded, last]).rstrip())
    return "\n".join(lines)


def cells_of(row: dict[str, Any]) -> list[str]:
    """One model of the table."""
    # Rounded down: 98.996 % must not look like 99 %.
    low, share, high = (math.floor(1e4 * row[f"attainment{end}"]) / 100 for end in ("_low", "", "_high"))
    return [
        row["model"],
        str(row["requests"]),
        str(row["lost"]),
        f"{share:.2f}",
        f"{low:.2f} to {high:.2f}",
        f"{100 * row['attainment_target']:g} in {1000 * row['slo_s']:g} ms",
        *(f"{1000 * row[key]:.1f}" for key in ("p50_s", "p50_planned_s", "p99_s", "p99_planned_s")),
        verdict(row),
    ]


def verdict(row: dict[str, Any]) -> str:
    """The SLO is met or missed; the interval says where a miss may be chance."""
    if row["slo_met"]:
        return "met"
    return "missed" if row["attainment_high"] < row["attainment_target"] else "missed, perhaps by chance"


def addresses(plan: dict[str, Any], given: list[str]) -> dict[str, str]:
    """The address of each endpoint: as given, for all or by name, or as the export knows it."""
    urls = dict(plan["endpoints"])
    for text in given:
        name, sign, url = text.partition("=")
        if sign and name in urls:
            urls[name] = url
        elif sign and "//" not in name:
            raise Unmeasurable(f"--url {text}: no endpoint `{name}`. Known: {', '.join(urls)}.")
        else:
            urls = dict.fromkeys(urls, text)
    if missing := [name for name, url in urls.items() if not url]:
        raise Unmeasurable(
            f"where is {missing[0]}? Say --url {missing[0]}=http://ADDRESS:8000 for: {', '.join(missing)}."
        )
    return urls


def notes(plan: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """Doubts about the figures, a sentence each."""
    sentences = []
    if names := [model["name"] for model in plan["models"] if model["stands_in"]]:
        recorded = ", ".join(names)
        sentences.append(f"Random arrivals at the planned rate stand in for those of {recorded}: not in the plan.")
    if slow := [row["sender_delay_p99_s"] for row in rows if row["sender_delay_p99_s"] > 0.1 * row["slo_s"]]:
        late = f"{1000 * max(slow):.1f} ms at the 99th percentile"
        sentences.append(f"The sender itself was late, by {late}: use a faster machine.")
    return sentences


def fail(text: str) -> NoReturn:
    """End: it could not be measured."""
    print(text, file=sys.stderr)
    sys.exit(2)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument(
        "--url", action="append", default=[], metavar="[NAME=]URL", help="where the servers are; repeatable"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long is measured (60)")
    parser.add_argument("--warmup", type=float, default=5.0, help="seconds before that, which do not count (5)")
    parser.add_argument("--seed", type=int, default=1, help="start of all random numbers (1)")
    parser.add_argument("--dim", type=int, help="size of dimensions that a model leaves open")
    parser.add_argument("--slo", type=Path, default=Path(__file__).with_name("slo.json"), help="another slo.json")
    parser.add_argument("--json", action="store_true", help="write JSON")
    options = parser.parse_args(arguments)
    if not (0 < options.seconds <= 86_400 and 0 <= options.warmup <= 86_400):
        parser.error("--seconds must be above 0, --warmup at least 0, both at most 86400")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, show, judge."""
    options = parse(arguments)
    try:
        plan = json.loads(options.slo.read_text(encoding="utf-8"))
        outcomes = asyncio.run(measure(plan, addresses(plan, options.url), options))
        rows = [judge(model, outcomes[model["name"]]) for model in plan["models"]]
    except Unmeasurable as error:
        fail(str(error))
    except (OSError, ValueError, KeyError) as error:
        fail(f"{options.slo}: cannot be used: {error}")
    doubts = notes(plan, rows)
    if options.json:
        models = [{key: None if value != value else value for key, value in row.items()} for row in rows]  # no NaN
        print(json.dumps({"models": models, "notes": doubts}, indent=2))
    else:
        print("\n".join([table(rows), *doubts]))
    return 0 if all(row["slo_met"] for row in rows) else 4


if __name__ == "__main__":
    sys.exit(main())
