"""Inputs that few give: each is answered, or refused in one line."""

from support.commands import planner

SERVING = """
models: [{name: resnet50, slo: {latency: 100 ms, attainment: 99 %}}]
streams: [{name: cams, model: resnet50, count: 2, rate: 1 /h}]
buy: {own: [{name: box, gpu: T4, price: $0.5/h, count: 2}]}
"""
TRAINING = """
model: {transformer: {layers: 32, hidden: 4096, heads: 32, sequence: 2048, vocabulary: 32000}}
data: {tokens: 1e9}
train: {epochs: 1, global_batch: 64, precision: amp, optimizer: adam}
buy: {gpus: [T4, L4, A10G], max_gpus: 4}
"""


def test_a_camera_that_hardly_ever_sends_is_planned_for(tmp_path):
    (tmp_path / "s.yaml").write_text(SERVING)
    assert planner("plan", tmp_path / "s.yaml", "-q", "-o", tmp_path / "plan.json")[0] == 0


def test_too_little_memory_of_an_own_machine_is_no_fault_of_ours(tmp_path):
    (tmp_path / "s.yaml").write_text(SERVING.replace("gpu: T4,", "gpu: T4, memory: 1 B,"))
    assert planner("plan", tmp_path / "s.yaml", "-q", "-o", tmp_path / "plan.json")[0] == 3


def test_no_models_beside_a_horizon_are_refused(tmp_path):
    (tmp_path / "s.yaml").write_text(SERVING + "horizon: 20 s\n")
    words = ("simulate", tmp_path / "s.yaml", "--set", "models=[]", "--gpu", "T4", "--count", "1", "-q")
    assert planner(*words)[0] == 2


def test_a_training_that_fits_nowhere_is_shown_whole(tmp_path):
    (tmp_path / "t.yaml").write_text(TRAINING)
    assert planner("train", tmp_path / "t.yaml", "-q", "-v")[0] == 3
