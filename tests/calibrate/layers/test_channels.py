"""Pictures of other channels, beside the same network built for them and traced."""

import pytest

from calibrate.layers.facts import facts, known
from calibrate.layers.work import Facts

torch = pytest.importorskip("torch")

from calibrate.layers.tracing import trace  # noqa: E402
from calibrate.zoo import zoo  # noqa: E402


def network(channels: int, groups: int = 1) -> Facts:
    nn = torch.nn
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(channels, 6 * groups, 3, stride=2, bias=False, groups=groups),
        nn.BatchNorm2d(6 * groups),
        nn.ReLU(),
        nn.Conv2d(6 * groups, 4, 3),
        nn.Flatten(),
        nn.Linear(4 * 5 * 5, 3),
    )
    return trace(zoo.Built("own:net", module.eval(), (channels, 16, 16), zoo.ZooTask.OTHER))


@pytest.mark.parametrize("channels", [1, 2, 4, 6])
def test_a_network_for_other_channels_is_predicted_whole(channels: int) -> None:
    predicted, traced = network(3).with_channels(channels), network(channels)
    assert predicted.layers == traced.layers
    assert (predicted.params, predicted.weight_bytes, predicted.flops) == (
        traced.params,
        traced.weight_bytes,
        traced.flops,
    )
    assert predicted.input_bytes_per_sample == traced.input_bytes_per_sample
    assert predicted.input_shape == traced.input_shape


@pytest.mark.parametrize("model", ["resnet50", "vgg16", "mobilenet_v3_large", "vit_b_16"])
def test_other_layers_stay_as_they_are(model: str) -> None:
    whole, gray = facts(model), facts(model).with_channels(1)
    changed = [one.name for one, other in zip(whole.layers, gray.layers, strict=True) if one != other]
    assert whole.first is not None
    assert changed == [whole.first.name]
    assert gray.with_channels(3).flops == pytest.approx(whole.flops, rel=1e-6)


def test_more_channels_never_cost_less() -> None:
    for model in known():
        series = [facts(model).with_channels(channels) for channels in (1, 2, 3)]
        for figure in ("flops", "params", "input_bytes_per_sample"):
            values = [getattr(one, figure) for one in series]
            assert values == sorted(values)


def test_models_without_pictures_stay_as_they_are() -> None:
    text = facts("bert_base")
    assert text.first is None
    assert text.with_channels(1) is text
