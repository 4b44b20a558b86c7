"""`check_slo.py` against a real HTTP server whose service time is known.

Times are judged from one side only: a server that sleeps is never quicker than that, whatever else the machine does.
"""

import ast
import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from planner.exports.checking import check_slo
from planner.exports.checking.check_slo import arrivals, interval, judge, quantile
from simulator.world.workload import FixedRate, Stream, Workload, draw

SCRIPT = Path(check_slo.__file__)
STANDARD = {
    *(
        "argparse",
        "asyncio",
        "contextlib",
        "dataclasses",
        "json",
        "math",
        "random",
        "ssl",
        "sys",
        "time",
        "pathlib",
        "typing",
    ),
    *("urllib.parse", "__future__"),
}


class Server(ThreadingHTTPServer):
    """Answers in the protocol of Triton (version 2), each request after `service_s`; one at a time where `serial`."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, service_s: float, serial: bool = False, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.service_s, self.status = service_s, status
        self.turn = threading.Lock() if serial else threading.BoundedSemaphore(1000)
        self.asked: Counter[str] = Counter()
        self.bodies: set[bytes] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        inputs = [{"name": "input", "datatype": "FP32", "shape": [-1, 3, 4]}]
        self.answer(200 if self.path == "/v2/models/m" else 404, json.dumps({"inputs": inputs}).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked[self.path] += 1
        self.server.bodies.add(body[int(self.headers["Inference-Header-Content-Length"]) :])
        with self.server.turn:
            time.sleep(self.server.service_s)
        self.answer(self.server.status, b'{"outputs":[]}')

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def serving(service_s: float, serial: bool = False, status: int = 200) -> Iterator[Server]:
    """A server that runs."""
    server = Server(service_s, serial, status)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def slo_file(folder: Path, slo_s: float, rate_rps: float = 40.0, shares: tuple[float, ...] = (1.0,)) -> Path:
    """The SLO of one model, at as many endpoints as there are shares."""
    names = [f"machine-{number}" for number in range(len(shares))]
    source = {"kind": "fixed", "count": 2, "rate_rps": rate_rps / 2, "phase": "spread", "jitter_s": 0.0, "cv": 1.0}
    model = {
        "name": "m",
        "path": "/v2/models/m",
        "routes": [{"endpoint": name, "share": share} for name, share in zip(names, shares, strict=True)],
        "slo_s": slo_s,
        "slo_attainment_target": 0.99,
        "p50_s": 0.02,
        "p99_s": 0.03,
        "offered_rps": rate_rps,
        "sources": [source],
        "stands_in": False,
    }
    path = folder / "slo.json"
    path.write_text(json.dumps({"endpoints": dict.fromkeys(names, ""), "models": [model]}), encoding="utf-8")
    return path


def check(path: Path, *options: str) -> tuple[int, dict[str, object], str]:
    """Exit code, figures of the model and errors of the script, run as people run it, without this project."""
    asked = [sys.executable, "-I", str(SCRIPT), "--slo", str(path), "--json", "--warmup", "0", *options]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    row = json.loads(ended.stdout)["models"][0] if ended.stdout else {}
    return ended.returncode, row, ended.stderr


def test_kept_where_the_server_is_quick_enough(tmp_path: Path) -> None:
    with serving(0.02) as server:
        code, row, errors = check(slo_file(tmp_path, slo_s=30.0), "--url", server.url, "--seconds", "1")
    assert (code, errors) == (0, "")
    assert (row["requests"], row["lost"], row["attainment"], row["slo_met"]) == (40, 0, 1.0, True)
    assert row["p50_s"] >= 0.02
    assert server.asked == {"/v2/models/m/infer": 40}
    assert server.bodies == {bytes(3 * 4 * 4)}  # one sample of zeros


def test_missed_where_it_is_not(tmp_path: Path) -> None:
    with serving(0.02) as server:
        code, row, _ = check(slo_file(tmp_path, slo_s=0.019), "--url", server.url, "--seconds", "0.5")
    assert (code, row["attainment"], row["slo_met"]) == (4, 0.0, False)


def test_a_late_answer_delays_nobody_and_counts_from_when_it_was_due(tmp_path: Path) -> None:
    """40 requests in a second to a server that takes 50 ms each, one at a time: the last waits for all before it.

    A closed loop would send less, and find 50 ms. Here the last answer comes after 40 x 0.05 = 2 s at the
    earliest, and was due before 1 s: it takes more than 1 s, and those in the middle at least half of that.
    """
    with serving(0.05, serial=True) as server:
        _, row, _ = check(slo_file(tmp_path, slo_s=30.0), "--url", server.url, "--seconds", "1")
    assert row["requests"] == 40
    assert row["p99_s"] >= 0.98
    assert row["p50_s"] >= 0.45


def test_refused_requests_are_lost_and_not_on_time(tmp_path: Path) -> None:
    with serving(0.0, status=503) as server:
        code, row, _ = check(slo_file(tmp_path, slo_s=30.0), "--url", server.url, "--seconds", "0.5")
    assert (code, row["lost"], row["requests"], row["p99_s"]) == (4, 20, 20, None)


def test_requests_are_spread_by_shares(tmp_path: Path) -> None:
    with serving(0.0) as first, serving(0.0) as second:
        path = slo_file(tmp_path, slo_s=30.0, rate_rps=200, shares=(0.75, 0.25))
        urls = ("--url", f"machine-0={first.url}", "--url", f"machine-1={second.url}")
        code, row, _ = check(path, *urls, "--seconds", "1")
    assert (code, row["requests"]) == (0, 200)
    assert first.asked.total() + second.asked.total() == 200
    assert 120 <= first.asked.total() <= 180  # 150 expected, standard deviation 6.1


def test_what_cannot_be_measured_says_why(tmp_path: Path) -> None:
    path = slo_file(tmp_path, slo_s=1.0)
    with serving(0.0) as server:
        gone = server.url
    for options, said in (
        ((), "where is machine-0?"),
        (("--url", gone), "no answer from 127.0.0.1"),
        (("--url", "machine-7=http://a:1"), "no endpoint `machine-7`"),
    ):
        code, row, errors = check(path, *options)
        assert (code, row) == (2, {})
        assert said in errors
        assert "Traceback" not in errors
    code, _, errors = check(tmp_path / "none.json")
    assert code == 2
    assert "none.json: cannot be used" in errors


def test_needs_the_standard_library_alone() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 10))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= STANDARD


def test_load_is_the_planned_one() -> None:
    rng = random.Random(1)
    fixed = {"kind": "fixed", "count": 4, "rate_rps": 15.0, "jitter_s": 0.0}
    assert sorted(arrivals({**fixed, "phase": "aligned"}, 2.0, rng))[:5] == pytest.approx([0, 0, 0, 0, 1 / 15])
    gaps = np.diff(sorted(arrivals({**fixed, "phase": "spread"}, 2.0, rng)))
    assert gaps == pytest.approx(1 / 60)
    assert len(arrivals({**fixed, "phase": "random"}, 200.0, rng)) == pytest.approx(4 * 15 * 200, abs=4)
    for source, cv in (
        ({"kind": "poisson"}, 1.0),
        ({"kind": "gamma", "cv": 2.0}, 2.0),
        ({"kind": "gamma", "cv": 0.5}, 0.5),
    ):
        times = np.sort(arrivals({**source, "count": 1, "rate_rps": 50.0}, 2000.0, rng))
        assert len(times) == pytest.approx(100_000, abs=5 * cv * 100_000**0.5)
        assert np.std(np.diff(times)) * 50 == pytest.approx(cv, rel=0.05)


def test_jitter_only_delays_and_by_as_much_as_in_the_simulator() -> None:
    """Delays |N(0, s)| are s sqrt(2 / pi) on average (4 standard errors)."""
    source = {"kind": "fixed", "count": 1, "rate_rps": 1.0, "phase": "aligned", "jitter_s": 0.01}
    late_s = np.array(arrivals(source, 10_000.0, random.Random(3))) - np.arange(10_000)
    assert late_s.min() >= 0
    assert late_s.mean() == pytest.approx(0.01 * (2 / np.pi) ** 0.5, abs=4 * late_s.std() / 100)
    simulated_s = draw(Workload((Stream("m", FixedRate(1.0, 0.0, 0.01)),)), 10_000.0, 3)["m"].arrival_s % 1
    assert late_s.mean() == pytest.approx(simulated_s.mean(), abs=4 * 2**0.5 * late_s.std() / 100)
    assert late_s.std() == pytest.approx(simulated_s.std(), rel=0.05)


def test_figures_agree_with_numpy_and_scipy() -> None:
    values = sorted(random.Random(2).random() for _ in range(101))
    assert quantile(values, 0.99) == pytest.approx(np.quantile(values, 0.99))
    for hits, count in ((99, 100), (0, 7), (7, 7), (480, 1000)):
        theirs = binomtest(hits, count).proportion_ci(0.95, method="wilson")
        assert interval(hits, count) == pytest.approx((theirs.low, theirs.high), abs=2e-5)
    record = [
        check_slo.RequestOutcome(0.0, 0.0, 0.1),
        check_slo.RequestOutcome(1.0, 1.0, 1.2),
        check_slo.RequestOutcome(2.0, 2.0),
    ]
    row = judge({"name": "m", "slo_s": 0.1, "slo_attainment_target": 0.3, "p50_s": 1, "p99_s": 1}, record)
    assert (row["attainment"], row["lost"], row["slo_met"]) == (pytest.approx(1 / 3), 1, True)


def test_answers_in_chunks_are_read_whole() -> None:
    async def read() -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(b"4\r\nabcd\r\n2;x=1\r\nef\r\n0\r\n\r\nnext")
        return await check_slo.read_body(reader, {"transfer-encoding": "chunked"})

    assert asyncio.run(read()) == b"abcdef"
