"""Models of one's own in a worker: numbers that no precision names and inputs that ignore the batch are refused."""

import pytest

from calibrate.assembling.profile import limits
from calibrate.devices.device import Cpu
from calibrate.io.points import Point, PointOutcome, Settings, Status, What
from calibrate.sweep.supervisor import Job
from calibrate.sweep.worker import measured, prepare
from calibrate.zoo.sources import ZooError

pytestmark = pytest.mark.filterwarnings("ignore:Complex modules")

OWN = """
import torch
from torch import nn

class Rows:
    rows = staticmethod(lambda batch: batch)
    dtype = torch.float32

    def make_model(self):
        return nn.Linear(8, 4).to(self.dtype)

    def make_input(self, batch, device):
        return torch.rand(self.rows(batch), 8, device=device).to(self.dtype)

class Double(Rows):
    dtype = torch.float64

class Half(Rows):
    dtype = torch.bfloat16

class Complex(Rows):
    dtype = torch.complex64

class Twice(Rows):
    dtype = torch.complex128

class Mixed(Rows):
    def make_model(self):
        return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1).double())

    def forward(self, model, inputs):
        return model[1](model[0](inputs).double())

class Quantized(Rows):
    def make_model(self):
        model = nn.Linear(8, 4, bias=False)
        model.weight = nn.Parameter(torch.ones(4, 8, dtype=torch.int8), requires_grad=False)
        return model

    def forward(self, model, inputs):
        return inputs @ model.weight.float().T

class Stuck(Rows):
    rows = staticmethod(lambda batch: 1)

class Repeated(Stuck):
    def make_input(self, batch, device):
        self.batch = batch
        return torch.rand(1, 8, device=device)

    def forward(self, model, inputs):
        return model(inputs.expand(self.batch, 8))

class Small(Rows):
    def forward(self, model, inputs):
        if len(inputs) > 2:
            raise ValueError("batch too big for me")
        return model(inputs)
"""


MEASURED = (("Rows", "fp32"), ("Double", "bf16"), ("Half", "bf16"), ("Complex", "fp32"), ("Mixed", "fp32"))


class Unlimited(Cpu):
    """The processor, without a limit that would stay in force for the tests after it."""

    def open(self, limit_bytes: int | None = None) -> None:
        super().open(None)


@pytest.fixture
def outcomes(tmp_path, monkeypatch):
    """Outcomes of memory at some batch sizes of a model above."""
    (tmp_path / "owned.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def found(name: str, *batches: int, precision: str = "fp32") -> list[PointOutcome]:
        settings = Settings(precision=precision)
        device = Unlimited()
        job = Job(
            model=f"owned:{name}",
            settings=settings,
            input_shape=None,
            seconds_per_point=0.02,
            soak_s=0.0,
            memory_bytes=None,
        )
        measure = prepare(device, job)
        points = [Point(what=What.MEMORY, model=f"owned:{name}", batch=n, settings=settings) for n in batches]
        return [measured(device, point, measure) for point in points]

    return found


@pytest.mark.parametrize(
    ("name", "precision", "said"),
    [
        ("Double", "fp32", "its weights are float64, .*keeps them in float32. Let the factory return it in float32"),
        ("Double", "amp", "its weights are float64"),
        ("Twice", "fp32", "its weights are complex128"),
        ("Half", "fp32", "its weights are bfloat16, .*Write --precision bf16, or let the factory"),
        ("Quantized", "fp32", "its weights are int8, .*planner profiles import"),
        ("Quantized", "bf16", "its weights are int8, .*keeps them in bfloat16"),
    ],
)
def test_weights_that_the_precision_does_not_name_are_refused(outcomes, name, precision, said):
    with pytest.raises(ZooError, match=f"^owned:{name}: {said}"):
        outcomes(name, 1, precision=precision)


@pytest.mark.parametrize(("name", "precision"), MEASURED)
def test_weights_that_it_names_are_measured(outcomes, name, precision):
    (found,) = outcomes(name, 2, precision=precision)
    assert found.status is Status.OK, found.message


def test_an_input_that_ignores_the_batch_is_refused_but_for_one_sample(outcomes):
    one, two, four = outcomes("Stuck", 1, 2, 4)
    assert (one.status, two.status, four.status) == (Status.OK, Status.FAILED, Status.FAILED)
    assert "make_input gives is as large for a batch of 2 as for one sample" in two.message


@pytest.mark.parametrize("name", ["Rows", "Repeated"])
def test_an_input_or_an_output_that_follows_is_enough(outcomes, name):
    assert [found.status for found in outcomes(name, 1, 2, 4)] == [Status.OK] * 3


def test_a_batch_that_failed_was_tried(outcomes):
    ends = limits(outcomes("Small", 1, 2, 4, 8))
    ended = {"batch": 4, "how": "failed", "why": "ValueError: batch too big for me"}
    assert ends == {"inference": {"fits": 2, "ended": ended}}
