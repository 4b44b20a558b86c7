"""Answers to render: two models on two V100, one refusal, one alternative."""

from dataclasses import replace

from planner.model.candidate import Candidate, Machines, Memory
from planner.model.parts.merging import Merging
from planner.model.parts.rules import AccuracyRule
from planner.model.plan import (
    Accuracy,
    Bottleneck,
    GpuAnswer,
    Instances,
    Interval,
    Measurement,
    ModelAnswer,
    Plan,
    PlanWarning,
    Policies,
    Recommendation,
    Rejection,
    Replayed,
    ReplicaAnswer,
    WayOfServing,
)
from planner.model.scenario import MemoryPolicy
from planner.model.statement import Code, Statement
from simulator.world.deployment import Drop, Eviction, Routing, Scheduling
from simulator.world.profile import Evidence

POLICIES = Policies(
    memory=MemoryPolicy.AUTO,
    scheduling=Scheduling.EDF,
    routing=Routing.SHARED,
    drop=Drop.LATE,
    accuracy=AccuracyRule.LOST_IS_WRONG,
    half_life_s=None,
    eviction=Eviction.LRU,
    prefetch=True,
    pinned=True,
    padded=False,
    headroom=0.1,
    horizon_s=60.0,
    warmup_s=2.0,
    failures=None,
)
REPLAYED = Replayed(
    horizon_s=60.0,
    warmup_s=2.0,
    settling_s=0.1,
    repeat_s=None,
    draws_asked=None,
    draws_mixed=1,
    draws_kept=None,
    swap=None,
)
VGG = ModelAnswer(
    name="vgg16",
    replicas=tuple(ReplicaAnswer(gpus=(gpu,), batch_size=4, share=0.5) for gpu in ("gpu0", "gpu1")),
    batch_size=4,
    max_queue_delay_s=0.0,
    gpus=("gpu0", "gpu1"),
    mode="resident",
    slo_s=0.1,
    slo_attainment_target=0.99,
    slo_attainment=Interval(0.99314, 0.99202, 0.99426),
    slo_met=True,
    mean_s=0.0433,
    p50_s=0.0412,
    p90_s=0.0644,
    p95_s=0.0721,
    p99_s=0.0812,
    p99=Interval(0.0812, 0.0808, 0.0816),
    throughput_rps=119.5,
    offered_rps=120.0,
    goodput_rps=119.2,
    dropped_fraction=0.004,
    processed_fraction=0.996,
    mean_batch_size=2.4,
    accuracy=Accuracy(lost_is_wrong=0.97, reuse_last=None),
    joules_per_inference=1.9,
    verdict="stable",
    bottleneck=Bottleneck.LATENCY,
    evidence=Evidence.PUBLISHED,
)
YOLO = replace(
    VGG,
    name="yolov3",
    replicas=(ReplicaAnswer(gpus=("gpu1",), batch_size=2, share=1.0),),
    batch_size=2,
    gpus=("gpu1",),
    slo_attainment=Interval(0.9999, 0.9998, 1.0),
    p99_s=0.0391,
    p99=Interval(0.0391, 0.0385, 0.0397),
    bottleneck=Bottleneck.COMPUTE,
    evidence=Evidence.ASSUMED,
)
GPUS = tuple(
    GpuAnswer(
        id=name,
        kind="V100",
        host="host0",
        models=models,
        utilization=busy,
        offered_load=0.8 * busy,
        load_share=0.013,
        swaps_per_s=0.2,
        peak_memory_bytes=9_400_000_000,
        memory_bytes=14_400_000_000,
        mean_power_w=187.0,
    )
    for name, models, busy in (("gpu0", ("vgg16",), 0.61), ("gpu1", ("vgg16", "yolov3"), 0.83))
)
AZURE = Instances(
    provider="azure",
    region="eastus",
    instance="NC6s_v3",
    gpu="V100",
    gpu_count=1,
    count=2,
    usd_per_hour=3.06,
    price_as_of="2026-06-18",
)
BEST = Recommendation(
    feasible=True,
    instances=(AZURE,),
    memory=Memory.RESIDENT,
    gpu_count=2,
    cost_usd_per_hour=6.12,
    cost_usd_per_month=4467.6,
    lower_bound_usd_per_hour=5.6,
    power_w=374.0,
    replications=5,
    requests=72_000,
    replayed=REPLAYED,
    models=(VGG, YOLO),
    gpus=GPUS,
    demand_factor_max=1.52,
)
DEARER = replace(
    BEST,
    instances=(replace(AZURE, count=3),),
    gpu_count=3,
    cost_usd_per_hour=9.18,
    cost_usd_per_month=6701.4,
)
ONE_GPU = Rejection(
    subject=replace(BEST.candidate, machines=(replace(AZURE.machines, count=1),)),
    bottleneck=Bottleneck.LATENCY,
    observed=0.131,
    limit=0.1,
    unit="s",
    why=Statement(code=Code.LONG_WAIT, subjects=("vgg16",), figures={"worst_s": 0.131}),
    remedies=(Statement(code=Code.RAISE_LATENCY, subjects=("vgg16",), figures={"latency_s": 0.131}),),
    cost_usd_per_hour=3.06,
)
T4_MACHINE = Machines(provider="aws", region="us-east-1", instance="g4dn.xlarge", gpu="T4", gpu_count=1, count=1)
NO_ROOM = Rejection(
    subject=Candidate(machines=(T4_MACHINE,), memory=Memory.SWAPPED),
    bottleneck=Bottleneck.COMPUTE,
    observed=2.4,
    limit=1.0,
    unit="fraction",
    why=Statement(code=Code.TOO_BUSY, figures={"work": 2.4, "headroom": 0.0}),
    remedies=(Statement(code=Code.LESS_DEMAND, figures={"share": 0.42}),),
    cost_usd_per_hour=0.526,
)
PLAN = Plan(
    scenario="video",
    scenario_sha256="a" * 64,
    seed=1,
    versions={"planner": "0.1.0"},
    created_at="2026-08-01T12:00:00Z",
    policies=POLICIES,
    recommendation=BEST,
    alternatives=(DEARER,),
    pareto=(0,),
    rejections=(NO_ROOM, ONE_GPU),
    prices_as_of="2026-06-18",
    assumptions=(Statement(code=Code.SHARED_LINK),),
    measure_next=(
        Measurement(
            model="yolov3",
            gpu="V100",
            why=Statement(code=Code.LEAST_ROOM, subjects=("assumed",)),
            command="planner calibrate --device cuda:0 --models yolov3",
        ),
    ),
    warnings=(PlanWarning(what=Statement(code=Code.PARTLY_ASSUMED, subjects=("yolov3 on V100",))),),
)
MISSED = replace(VGG, slo_met=False, slo_attainment=Interval(0.95, 0.94, 0.96))
INFEASIBLE = replace(
    PLAN, recommendation=replace(BEST, feasible=False, models=(MISSED, YOLO)), alternatives=(), pareto=()
)
MERGED = WayOfServing(
    merging=Merging.LAYERS,
    candidate=Candidate(machines=()),
    chosen=True,
    feasible=True,
    gpu_count=1,
    weights_bytes=1,
    saved_bytes=1,
    peak_memory_bytes=1,
    processed_fraction=1.0,
    merged_accuracy=1.0,
    cost_usd_per_hour=1.0,
    training_usd=1.0,
    retraining_usd_per_month=1.0,
    total_usd_per_month=1.0,
    evidence=None,
    live=(),
)
