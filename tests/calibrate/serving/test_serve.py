"""Serving for real: tiny models on the CPU, every request accounted for, memory within its limit, clean stops."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support import worlds
from torch import nn

from calibrate.devices.device import Cpu, find_device
from calibrate.serving.entry import serve
from calibrate.serving.resident import Arena, Weights, assigned
from calibrate.serving.serve import Bench, ServingJob, Source, check
from calibrate.serving.served import ASKED, FOLLOW, WAKE, Served, ServeError
from calibrate.serving.together import died
from planner.questions.validation.fitting import Case
from planner.questions.validation.rehearsal import rehearse
from simulator.clock.metrics import summarise
from simulator.clock.records import Outcome
from simulator.clock.run import simulate
from simulator.rules.batching import EPSILON_S
from simulator.world.curves import LoadTime
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Eviction, Failures, Scheduling, SwapPolicy
from simulator.world.model import Layer
from simulator.world.workload import Demand, FixedRate, Poisson, Stream, Workload, draw

sys.path.append(str(Path(__file__).parent))  # its models are imported by name, also by processes that serve them

WIDTH = 512
WEIGHT_BYTES = 4 * (WIDTH * WIDTH + WIDTH)
SLEEP_S = 0.02
CONTEXT_BYTES = 1000


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Models of one's own, as a user would bring them


def linear():
    return nn.Linear(WIDTH, WIDTH)


class Sleeper(nn.Linear):
    """Takes a known time."""

    def forward(self, x):
        time.sleep(SLEEP_S)
        return super().forward(x)


def sleeper():
    return Sleeper(WIDTH, WIDTH)


class Moody(nn.Linear):
    """Does something else at its 30th call: warming up makes far fewer."""

    def __init__(self, at_last):
        super().__init__(WIDTH, WIDTH)
        self.calls, self.at_last = 0, at_last

    def forward(self, x):
        self.calls += 1
        if self.calls == 30:
            self.at_last()
        return super().forward(x)


def raising():
    return Moody(lambda: {}["no such key"])


def hungry():
    return Moody(lambda: torch.empty(1 << 55))


def interrupted():
    return Moody(lambda: signal.raise_signal(signal.SIGINT))


def killed():
    return Moody(lambda: os.kill(os.getpid(), signal.SIGKILL))


class Caller(Sleeper):
    """Presses Ctrl-C in the process that asked, at its 40th call."""

    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 40:
            os.kill(multiprocessing.parent_process().pid, signal.SIGINT)
        return super().forward(x)


def caller():
    return Caller(WIDTH, WIDTH)


def hopeless():
    module = nn.Linear(WIDTH, WIDTH)
    module.register_forward_pre_hook(lambda *_: {}["never works"])
    return module


# Worlds


def source(name: str) -> Source:
    return Source(name=name if ":" not in name and name == "lenet" else f"test_serve:{name}", input_shape=(WIDTH,))


def profile(model: str, latency_s=0.001, **options):
    given = {"layers": [Layer(model, WEIGHT_BYTES)], "workspace_bytes": 10**5, "load": LoadTime(1e-4, 2e9)} | options
    return worlds.profile(model, latency_s, **given)


def world(
    names: list[str], *, room: float | None = None, latency_s=0.001, batch=worlds.SINGLE, drop=Drop.NEVER, **options
):
    """Services of these names on one device; `room`: memory for so many models."""
    services = [
        worlds.service(profile(name, latency_s), batch=batch, drop=drop, slo_s=options.get("slo_s", 1e6))
        for name in names
    ]
    options.pop("slo_s", None)
    memory_bytes = 10**9 if room is None else CONTEXT_BYTES + 10**5 + round(room * WEIGHT_BYTES)
    return worlds.deployment(*services, memory_bytes=memory_bytes, context_bytes=CONTEXT_BYTES, **options)


def asking(names: list[str], rate_rps: float, duration_s: float, seed: int = 1) -> dict[str, Demand]:
    return draw(Workload(tuple(Stream(name, Poisson(rate_rps)) for name in names)), duration_s, seed)


def served(deployment: Deployment, demand, duration_s: float, factory: str | dict = "linear") -> Served:
    kinds = {name: factory if isinstance(factory, str) else factory[name] for name in demand}
    return serve(deployment, demand, {name: source(kind) for name, kind in kinds.items()}, "cpu", duration_s, seed=1)


def account(run: Served) -> dict[Outcome, int]:
    """Every request has one end, and its time stamps fit it and are in order."""
    total = dict.fromkeys(Outcome, 0)
    end_s = run.result.duration_s
    for requests in run.result.requests.values():
        for outcome in Outcome:
            of = requests.outcome == outcome
            start_s, finish_s = requests.start_s[of], requests.finish_s[of]
            assert np.isnan(start_s).all() == (outcome is Outcome.WAITING or not of.any())
            assert np.all(start_s >= requests.arrival_s[of]) or outcome is Outcome.WAITING
            if outcome is Outcome.FINISHED:
                assert np.all((finish_s > start_s) & (finish_s <= end_s))
            else:
                assert np.isnan(finish_s).all()
            total[outcome] += int(of.sum())
        assert np.all(requests.arrival_s <= end_s)
    assert sum(total.values()) == run.result.request_count
    batches = run.result.batches
    starts = np.concatenate([b.start_s for b in batches])
    order = np.argsort(starts)
    assert np.all(starts[order][1:] >= np.concatenate([b.finish_s for b in batches])[order][:-1]), "one at a time"
    assert sum(b.count.sum() for b in batches) == total[Outcome.FINISHED] + total[Outcome.RUNNING]
    return total


def weights_peak(run: Served) -> int:
    """Most bytes of weights and context ever on the device, counted anew from the actions alone."""
    sizes = run.held["g0"].weight_bytes
    signs = {"load": 1, "evict": -1}
    moves = [a for a in run.actions if a.kind in signs]
    changes = sorted((start_s, signs[a.kind] * sizes[a.model]) for a in moves for start_s in a.start_s)
    return CONTEXT_BYTES + int(np.cumsum([change for _, change in changes]).max())


# Serving


@pytest.mark.parametrize("drop", Drop)
def test_every_request_is_accounted_for(drop):
    names = ["a", "b"]
    batch = BatchingPolicy(4, 0.004)
    latency_s = [0.02] * 4
    run = served(
        world(names, batch=batch, drop=drop, latency_s=latency_s, slo_s=0.05), asking(names, 200.0, 0.6), 0.6, "sleeper"
    )
    total = account(run)
    assert run.stopped is None
    assert total[Outcome.FINISHED] > 0
    assert (total[Outcome.DROPPED] > 0) == (drop is not Drop.NEVER)
    assert run.result.duration_s == 0.6
    found = summarise(run.result)
    assert found.models["a"].mean_batch_size > 1
    assert found.devices["g0"].utilization > 0.5


def test_overhead_is_measured_for_every_batch():
    run = served(world(["a"]), asking(["a"], 100.0, 0.5), 0.5)
    (batches,) = run.result.batches
    assert len(run.launch_s["g0"]) == len(batches.count) > 10
    assert np.all(run.launch_s["g0"] >= 0)
    assert 0 < run.overhead < 1
    (runs,) = [one for one in run.actions if one.kind == "run"]
    assert runs.kind == "run"
    assert runs.actual_s == pytest.approx(batches.finish_s - batches.start_s)
    assert np.all(runs.expected_s == 0.001)
    assert np.all(runs.batch == batches.count)


@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize(("scheduling", "eviction"), list(zip(Scheduling, Eviction, strict=True)))
def test_memory_stays_within_its_limit(scheduling, eviction, prefetch):
    names, duration_s = ["a", "b", "c", "d"], 20.0
    given = world(names, room=2.3, scheduling=scheduling, swap=SwapPolicy(eviction, prefetch), slo_s=0.02)
    bench = Bench(find_device("cpu"), Weights(find_device("cpu"), pinned=True))
    executor = bench.executor(given, asking(names, 150.0, duration_s), dict.fromkeys(names, source("linear")))
    assert executor.gpu.swaps
    seen, over = [], threading.Event()

    def watch() -> None:
        while not over.wait(5e-4):
            with executor.turn:  # else it could count what goes and what comes in its place
                seen.append(bench.weights.held_bytes)

    watcher = threading.Thread(target=watch)
    watcher.start()
    wanted = prefetch and eviction is Eviction.LRU

    def enough() -> bool:
        ahead = sum(load.ahead for load in executor.gpu.loads)
        watched = len(seen) > 9 and max(seen) >= WEIGHT_BYTES
        return watched and len(executor.gpu.loads) > 9 and (not wanted or ahead > 2)

    stopped = executor.serve(time.perf_counter, duration_s, enough)
    over.set()
    watcher.join()
    room = given.devices[0].memory_bytes - CONTEXT_BYTES
    assert stopped == ASKED
    assert WEIGHT_BYTES <= max(seen) <= room
    assert max(executor.gpu.memory_used) <= given.devices[0].memory_bytes
    assert max(seen) + CONTEXT_BYTES <= max(executor.gpu.memory_used)
    assert len(executor.gpu.loads) > 2, "more than fit"
    ahead = sum(load.ahead for load in executor.gpu.loads)
    assert prefetch or not ahead
    # What goes by the other rules is often the model that runs, and must stay until its batch is done.
    assert ahead > 2 or not wanted
    bench.clear()
    assert bench.weights.held_bytes == 0


def test_memory_columns_follow_from_the_actions():
    names = ["a", "b", "c"]
    run = served(world(names, room=2.0), asking(names, 100.0, 0.4), 0.4)
    account(run)
    use = run.result.memory["g0"]
    assert np.all(np.diff(use.at_s) >= 0)
    assert use.used_bytes.max() == run.held["g0"].counted_peak_bytes <= run.held["g0"].limit_bytes
    workspaces = run.held["g0"].workspace_bytes.values()
    assert weights_peak(run) < use.used_bytes.max() <= weights_peak(run) + max(workspaces)
    kinds = {action.kind for action in run.actions}
    assert kinds - {WAKE, FOLLOW} == {"run", "load", "evict"}
    loads = [action for action in run.actions if action.kind == "load"]
    assert sum(len(action.start_s) for action in loads) >= len(run.result.loads) > 0
    assert loads[0].expected_s[0] == pytest.approx(1e-4 + WEIGHT_BYTES / 2e9)
    assert summarise(run.result).devices["g0"].load_share > 0
    assert run.held["g0"].weight_bytes == dict.fromkeys(names, WEIGHT_BYTES)


def test_all_in_memory_loads_nothing():
    run = served(world(["a", "b"]), asking(["a", "b"], 50.0, 0.2), 0.2)
    assert not run.result.loads
    assert {action.kind for action in run.actions} - {WAKE, FOLLOW} == {"run"}
    expected = CONTEXT_BYTES + 2 * WEIGHT_BYTES + max(run.held["g0"].workspace_bytes.values())
    assert run.result.memory["g0"].used_bytes.tolist() == [expected]


def test_every_size_that_may_form_runs_before_the_clock_starts():
    given = worlds.deployment(worlds.service(profile("a", [0.001] * 7), batch=BatchingPolicy(7)), memory_bytes=10**9)
    bench, ran = Bench(find_device("cpu"), Weights(find_device("cpu"), pinned=True)), []
    bench.executor(given, {}, {"a": source("linear")})
    (line,), forward = bench.lines, bench.lines[0].forward
    line.forward = lambda count: (ran.append(count), forward(count))[1]
    bench.warm_up(line)
    assert set(ran) == {1, 2, 3, 4, 5, 6, 7}


def test_a_model_of_the_zoo_is_served():
    from calibrate.zoo import zoo

    built = zoo.build("lenet")
    size = sum(t.nbytes for t in [*built.module.parameters(), *built.module.buffers()])
    given = worlds.service(profile("lenet", [0.002] * 4, layers=[Layer("lenet", size)]), batch=BatchingPolicy(4))
    run = served(worlds.deployment(given), asking(["lenet"], 200.0, 0.3), 0.3, "lenet")
    assert account(run)[Outcome.FINISHED] > 10
    assert run.held["g0"].weight_bytes == {"lenet": size}


# Weights


def test_weights_are_copied_in_from_the_host_and_freed():
    weights, module, key = Weights(find_device("cpu"), pinned=True), linear(), "a"
    wanted = module(torch.ones(1, WIDTH)).detach()
    (layer,) = weights.adopt("a", module, [Layer(key, 1)])
    assert layer == Layer(key, WEIGHT_BYTES)
    assert weights.held_bytes == 0
    with pytest.raises(RuntimeError):
        module(torch.ones(1, WIDTH))
    weights.reserve(WEIGHT_BYTES)
    weights.load([key])
    assert weights.held_bytes == WEIGHT_BYTES
    assert torch.equal(module(torch.ones(1, WIDTH)), wanted)
    for tensor in weights.groups[key].host:
        tensor.mul_(2)
    assert torch.equal(module(torch.ones(1, WIDTH)), wanted), "the device has a copy of its own"
    weights.evict([key])
    assert weights.held_bytes == 0
    with pytest.raises(RuntimeError):
        module(torch.ones(1, WIDTH))
    weights.load([key])
    assert torch.allclose(module(torch.ones(1, WIDTH)), 2 * wanted)


def test_layers_that_two_models_share_are_there_once():
    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))

    weights, a, b = Weights(find_device("cpu"), pinned=False), net(), net()
    layers = [Layer("shared/0", 80), Layer("own/1", 40)]
    weights.adopt("a", a, layers)
    weights.adopt("b", b, [layers[0], Layer("other/1", 40)])
    weights.load(["shared/0", "own/1", "other/1"])
    assert weights.held_bytes == 80 + 40 + 40
    assert a[0].weight.data_ptr() == b[0].weight.data_ptr()
    assert a[1].weight.data_ptr() != b[1].weight.data_ptr()
    with pytest.raises(ServeError, match=r"c: layer 'shared/0' is shared, but its tensors have shapes .*\(3, 3\)"):
        weights.adopt("c", nn.Sequential(nn.Linear(3, 3)), [layers[0], Layer("own/9", 0)])


def test_tensors_belong_to_the_longest_name_that_leads_to_them():
    module = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), nn.Linear(2, 2))
    found = assigned("m", module, [Layer("m/0", 1), Layer("m/0.1", 1), Layer("m/1", 1)])
    assert list(found["m/0"]) == ["0.0.weight", "0.0.bias"]
    assert "0.1.running_mean" in found["m/0.1"]
    with pytest.raises(ServeError, match=r"m: 1\.weight belongs to none of the 2 layers"):
        assigned("m", module, [Layer("m/0", 1), Layer("m/01", 1)])


def test_an_arena_gives_room_back_and_joins_neighbours():
    arena = Arena(640)
    like = torch.zeros(32)  # 128 bytes
    rooms = [arena.take(like) for _ in range(5)]
    for i, room in enumerate(rooms):
        room.fill_(i)
    assert [room[0].item() for room in rooms] == [0, 1, 2, 3, 4]
    outside = arena.take(like)
    for i in (1, 3, 2):
        arena.give(rooms[i])
    arena.give(outside)
    large = arena.take(torch.zeros(8, 12))
    assert large.data_ptr() == rooms[1].data_ptr()
    assert arena.take(torch.zeros(0)).numel() == 0
    last = torch.zeros(2, 3, 2, 2).to(memory_format=torch.channels_last)
    assert arena.take(last).is_contiguous(memory_format=torch.channels_last)


# Beside the simulator


def both(given: Deployment, workload: Workload, duration_s: float, factory: str = "sleeper"):
    demand = draw(workload, duration_s, 1)
    return served(given, demand, duration_s, factory), simulate(given, workload, duration_s, 1)


def in_order(result):
    """Model, start, finish and size of all batches, in order of start."""
    rows = [
        (start_s, finish_s, b.model, count)
        for b in result.batches
        for start_s, finish_s, count in zip(b.start_s, b.finish_s, b.count, strict=True)
    ]
    return sorted(rows)


def assert_explained(run: Served, simulated) -> None:
    """Batches begin and end when the simulator says, give or take what the run noted: how much longer than expected
    each batch before took, and how long each waited for the executor. Nothing else may move them."""
    real, told = in_order(run.result), in_order(simulated)
    assert abs(len(real) - len(told)) <= 1 + sum(run.launch_s["g0"]) / SLEEP_S + late_s(run) / SLEEP_S
    moved_s = 0.0
    for (start_s, finish_s, *_), (sim_start_s, sim_finish_s, *_), launch_s in zip(
        real, told, run.launch_s["g0"], strict=False
    ):
        moved_s += launch_s
        assert abs(start_s - sim_start_s) <= moved_s + EPSILON_S
        moved_s += abs((finish_s - start_s) - (sim_finish_s - sim_start_s))
        assert abs(finish_s - sim_finish_s) <= moved_s + EPSILON_S


def late_s(run: Served) -> float:
    return sum(float(np.abs(a.actual_s - a.expected_s).sum()) for a in run.actions if a.kind == "run")


def test_models_take_turns_as_in_the_simulator():
    names = ["a", "b", "c"]
    workload = Workload(
        tuple(Stream(name, FixedRate(25.0, phase_s=0.004 * i)) for i, name in enumerate(names))
    )  # each second of arrivals brings 1.5 s of work: from the first batch on, all three wait
    run, simulated = both(world(names, latency_s=SLEEP_S), workload, 1.0)
    real, told = in_order(run.result), in_order(simulated)
    common = min(len(real), len(told))
    assert common > 30
    assert [row[2] for row in real[:common]] == [row[2] for row in told[:common]]
    assert_explained(run, simulated)


def test_batches_form_as_in_the_simulator():
    workload = Workload((Stream("a", FixedRate(10.0, phase_s=0.0)),))
    batch = BatchingPolicy(8, 0.25)  # 3 arrive in that time, the fourth 50 ms later: room for a late wake-up
    run, simulated = both(world(["a"], batch=batch, latency_s=SLEEP_S), workload, 1.5)
    real, told = in_order(run.result), in_order(simulated)
    assert [row[3] for row in real] == [row[3] for row in told] == [3] * 5
    waits_s = np.array([start_s - sim_start_s for (start_s, *_), (sim_start_s, *_) in zip(real, told, strict=True)])
    assert np.all(waits_s >= -EPSILON_S), "never early"


def test_models_that_share_memory_take_turns_as_in_the_simulator():
    names = ["a", "b", "c"]
    workload = Workload(tuple(Stream(name, FixedRate(25.0, phase_s=0.004 * i)) for i, name in enumerate(names)))
    swap = SwapPolicy(Eviction.LRU, prefetch=False)
    run, simulated = both(world(names, room=2.0, latency_s=SLEEP_S, swap=swap), workload, 0.8)
    loads = [load.model for load in run.result.loads]
    told = [load.model for load in simulated.loads]
    common = min(len(loads), len(told))
    assert common > 15
    assert loads[:common] == told[:common], "LRU misses at every turn of a cycle"


def test_prefetching_loads_beside_a_batch():
    names = ["a", "b", "c"]
    workload = Workload(tuple(Stream(name, FixedRate(25.0, phase_s=0.004 * i)) for i, name in enumerate(names)))
    run, simulated = both(world(names, room=2.0, latency_s=SLEEP_S), workload, 0.8)
    ahead = [load for load in run.result.loads if load.ahead]
    assert len(ahead) / len(run.result.loads) > 0.8
    assert sum(load.ahead for load in simulated.loads) / len(simulated.loads) > 0.8
    spans = [(start_s, finish_s) for start_s, finish_s, *_ in in_order(run.result)]
    for load in ahead:
        assert any(start_s - 1e-3 <= load.start_s <= finish_s for start_s, finish_s in spans)


# Stops and refusals


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("raising", "KeyError: 'no such key'"),
        ("hungry", "out of memory: "),
        ("interrupted", "interrupted"),
    ],
)
@pytest.mark.parametrize("room", [None, 1.5])
def test_a_run_that_breaks_off_keeps_what_it_measured(factory, reason, room):
    given = world(["a", "b"], room=room)
    run = served(given, asking(["a", "b"], 400.0, 5.0), 5.0, {"a": factory, "b": "linear"})
    assert run.stopped is not None
    assert run.stopped.startswith(reason)
    assert "\n" not in run.stopped
    total = account(run)
    assert total[Outcome.FINISHED] >= 10
    in_time = factory == "interrupted"
    """Ctrl-C lets the batch that runs come to its end."""
    assert total[Outcome.RUNNING] == (not in_time)
    assert run.result.duration_s < 5.0
    broken = next(b for b in run.result.batches if b.model == "a")
    assert broken.aborted.tolist() == [False] * (len(broken.count) - 1) + [not in_time]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert summarise(run.result).models["b"].finished > 0
    assert threading.active_count() == 1, "the loader is gone"


def test_what_never_works_is_refused_before_the_clock_starts():
    with pytest.raises(ServeError, match=r"g0: KeyError: 'never works'"):
        served(world(["a"]), asking(["a"], 10.0, 0.1), 0.1, "hopeless")
    with pytest.raises(ServeError, match=r"g0: test_serve:nobody: nobody is not there"):
        served(world(["a"]), asking(["a"], 10.0, 0.1), 0.1, "nobody")


def test_a_model_that_needs_more_than_the_limit_is_refused():
    small = world(["a"], room=0.9)
    with pytest.raises(ServeError, match=r"g0: a: needs [0-9,]+ bytes .* the limit is [0-9,]+\. Allow more memory"):
        served(small, asking(["a"], 10.0, 0.1), 0.1)


def test_a_device_that_cannot_be_had_is_refused():
    with pytest.raises(ServeError, match=r"^g0: --device: cuda:9999 is not there"):
        serve(world(["a"]), asking(["a"], 10.0, 0.1), {"a": source("linear")}, "cuda:9999", 0.1)


def test_a_device_that_does_not_open_is_refused(monkeypatch):
    def broken(_, limit_bytes=None):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(Cpu, "open", broken)
    with pytest.raises(ServeError, match=r"^g0: RuntimeError: CUDA error: out of memory$"):
        served(world(["a"]), asking(["a"], 10.0, 0.1), 0.1)


@pytest.mark.parametrize(
    ("factory", "error", "said"),
    [("raising", ServeError, "^rehearsal: KeyError: 'no such key'$"), ("interrupted", KeyboardInterrupt, "^$")],
)
def test_a_rehearsal_that_breaks_off_says_nothing_of_the_device(factory, error, said):
    workload = Workload((Stream("a", Poisson(500.0)),))
    case = Case(deployment=world(["a"]), workload=workload, warmup_s=0.0)
    with pytest.raises(error, match=said):
        rehearse(case, {"a": source(factory)}, "cpu", 2.0)


def test_what_cannot_be_served_is_said():
    good, demand, models = world(["a"]), asking(["a"], 10.0, 0.1), {"a": source("linear")}
    (service,) = good.services
    twice = replace(service, replicas=service.replicas * 2)
    cases = [
        (good, demand, models, 0.0, "duration: must be above 0 s, got 0"),
        (replace(good, failures=Failures(mean_time_between_s=1.0, recovery_s=1.0)), demand, models, 1.0, "failures: "),
        (replace(good, services=(twice,)), demand, models, 1.0, "a: must have one replica on one device"),
        (good, demand, {}, 1.0, "a: no real model is named for it"),
        (good, {"z": demand["a"]}, models, 1.0, "workload: asks 'z', which no service answers"),
        (replace(good, devices=()), demand, models, 1.0, "a: device 'g0' is not in the deployment"),
        (worlds.deployment(service, devices=2), demand, models, 1.0, "g1: serves no model"),
    ]
    for deployment, asked, given, duration_s, said in cases:
        with pytest.raises(ServeError) as refused:
            check(ServingJob(deployment, asked, given, "cpu", duration_s, 0))
        assert str(refused.value).startswith(said)


# Two processes


@pytest.fixture
def copied(monkeypatch):
    """Processes that serve are copies of one that has imported torch, which takes longer than all they do."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "calibrate.serving.serve"])
    monkeypatch.setattr("calibrate.serving.together.get_context", lambda _: context)


def apart(latency_s: float) -> Deployment:
    """Models a and b in processes of their own."""
    services = [
        worlds.service(profile(name, latency_s), devices=[device]) for name, device in (("a", "g0"), ("b", "g1"))
    ]
    return worlds.deployment(*services, devices=2, memory_bytes=10**8, context_bytes=CONTEXT_BYTES)


@pytest.mark.usefixtures("copied")
def test_two_processes_serve_one_device_from_the_same_moment_until_ctrl_c():
    names, duration_s = ["a", "b"], 30.0
    demand = draw(Workload(tuple(Stream(name, FixedRate(40.0, phase_s=0.0)) for name in names)), duration_s, 1)
    models = {"a": source("sleeper"), "b": source("caller")}
    run = serve(apart(SLEEP_S), demand, models, "cpu", duration_s, seed=1)
    assert run.stopped == "interrupted"
    assert run.result.duration_s < duration_s
    assert list(run.result.requests) == names
    assert set(run.launch_s) == set(run.held) == set(run.result.memory) == {"g0", "g1"}
    a, b = run.result.batches
    assert (a.device, b.device) == ("g0", "g1")
    spans = zip(a.start_s, a.finish_s, strict=True)
    beside = [np.any((b.start_s < finish_s) & (b.finish_s > start_s)) for start_s, finish_s in spans]
    assert np.mean(beside) > 0.5, "at once, not in turn"
    assert {action.device for action in run.actions} == {"g0", "g1"}
    assert all(model.finished > 0 for model in summarise(run.result).models.values())


@pytest.mark.usefixtures("copied")
def test_a_process_that_dies_costs_only_its_own_records():
    run = serve(
        apart(0.001),
        asking(["a", "b"], 100.0, 20.0),
        {"a": source("linear"), "b": source("killed")},
        "cpu",
        20.0,
        seed=1,
    )
    assert run.stopped == "g1: its process died, exit code -9. Memory probably ended: allow less, or fewer processes"
    assert died(9) == "its process died, exit code 9"
    assert summarise(run.result).models["a"].finished > 0
    assert np.all(run.result.requests["b"].outcome == Outcome.WAITING)
    assert run.result.duration_s < 20.0
