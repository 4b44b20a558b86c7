"""Any model: those of Hugging Face, whose input has names and whose factories have hooks, become profiles."""

import pytest

from calibrate.devices.device import find_device
from calibrate.devices.timer import StopRule
from calibrate.io.points import Point, PointOutcome, Settings, Status, What
from calibrate.layers.modules import trace
from calibrate.library.lookup import find_kinds, read_profile
from calibrate.sweep import assemble
from calibrate.sweep.journal import Header
from calibrate.sweep.measure import measure
from calibrate.zoo import zoo

HUGGING_FACE = """
import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

class Bert:
    def make_model(self):
        return BertModel(BertConfig(vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                    intermediate_size=32, max_position_embeddings=16))

    def make_input(self, batch, device):
        ids = torch.randint(100, (batch, 8), device=device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

class Gpt2:
    def make_model(self, device):
        model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=16, n_embd=16, n_layer=1, n_head=2,
                                           bos_token_id=0, eos_token_id=0))
        return model.to(device)

    def make_input(self, batch, device):
        return {"input_ids": torch.randint(100, (batch, 8), device=device)}

    def loss(self, model, inputs):
        return model(**inputs, labels=inputs["input_ids"]).loss
"""


@pytest.mark.parametrize("name", ["Bert", "Gpt2"])
def test_models_of_hugging_face_become_profiles(tmp_path, monkeypatch, name):
    """Words by name, a factory that wants the device, a loss of its own: traced, loaded, run, trained."""
    pytest.importorskip("transformers")
    (tmp_path / "faces.py").write_text(HUGGING_FACE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    built, device, rule = zoo.build(f"faces:{name}"), find_device("cpu"), StopRule(seconds=0.02, warm_up_s=0.0)
    assert len(built.make_input(3, "cpu", Settings())["input_ids"]) == 3

    def outcome(what: What, **more) -> PointOutcome:
        point = Point(what=what, model=built.name, **more)
        if what is What.LAYERS:
            values, details = trace(built, Settings())
            return PointOutcome(point=point, status=Status.OK, values=values, details=details)
        values, samples, details = measure(built, device, point, rule)
        return PointOutcome(point=point, status=Status.OK, values=values, samples=samples, details=details)

    outcomes = [outcome(What.LAYERS), outcome(What.LOAD)]
    for batch in (1, 2):
        outcomes += [outcome(What.MEMORY, batch=batch), outcome(What.LATENCY, batch=batch)]
    outcomes.append(outcome(What.TRAINING, batch=2, optimizer="sgd"))
    provenance = {"gpu": "cpu-test", "memory_bytes": 10**10, "date": "2026-07-20T12:00:00+00:00"}
    assemble.write(outcomes, Header(provenance=provenance, seed=0), tmp_path / "out")
    folder = tmp_path / "out" / "cpu-test"
    profile = read_profile(folder / f"faces.{name}.json", find_kinds([folder]))
    assert profile.weight_bytes == sum(p.numel() * 4 for p in built.module.parameters()) + sum(
        buffer.nbytes for buffer in built.module.buffers()
    )
    assert profile.flops_per_sample
    assert profile.largest_batch == 2
