"""Naming: the name that profiles of a model go by, and the options by which `planner calibrate` measures it.

Needs no torch.
"""

import re
from collections.abc import Sequence
from functools import cache

from calibrate.layers.facts import known, named, shipped
from calibrate.published.names import architecture, of_profile
from calibrate.zoo.sources import SOURCES, is_sourced

NAME_MAX = 64
"""Characters of a name."""
LAYERS_ONLY = frozenset({"alexnet_2012"})
"""Plain names whose layers are shipped, of networks that nothing builds."""
OWN = "--model PACKAGE.MODULE:FACTORY --input CxHxW"
"""The options for a model of one's own, to be filled in."""
SETTINGS = re.compile(r"(?:\.(\d+)px)?(\.channels_last)?(\.cudnn_benchmark)?(\.compile)?(\.cuda_graph)?$")
"""The end of a profile's name that says how its model was run."""
SWITCHES = ("--channels-last", "--cudnn-benchmark", "--compile", "--cuda-graph")


def profile_name(model: str, input_shape: Sequence[int] = (), suffix: str = "") -> str:
    """The name that the profiles of a model go by, of at most 64 characters: those at the end.

    `input_shape`: one sample of a user's own model; the zoo's have theirs.

    >>> profile_name("my.package:factory", (3, 64, 64))
    'my.package.factory.3x64x64'
    """
    bare = re.sub(r"[^A-Za-z0-9_.-]", ".", model).lstrip("_.-")
    end = (f".{'x'.join(map(str, input_shape))}" if input_shape else "") + suffix
    return bare[-NAME_MAX + len(end) :].lstrip("_.-") + end


def options_of(profile: str) -> str:
    """`--models resnet50` for `nvidia_resnet50`, with `--resolution 448` for `resnet50.448px`; empty where nothing that
    can be built is known by that name."""
    end = SETTINGS.search(profile)
    found = buildable(profile[: end.start()]) if end else ""
    if not (end and found):
        return ""
    resolution, *switches = end.groups()
    asked = [f"--resolution {resolution}"] if resolution else []
    asked += [option for option, on in zip(SWITCHES, switches, strict=True) if on]
    return " ".join((f"--models {found}", *asked))


def measured_as(profile: str) -> str:
    """The model that was measured under a profile's name; the name itself where it tells of none.

    >>> measured_as("timm.resnet18"), measured_as("hf.google.vit-base-patch16-224"), measured_as("lenet")
    ('timm:resnet18', 'hf:google/vit-base-patch16-224', 'lenet')
    """
    if full := next((name for name in named() if profile_name(name) == profile), ""):
        return full
    source, _, name = profile.partition(".")
    end = SETTINGS.search(profile)
    if not name or source not in SOURCES or SOURCES[source].is_file or (end and end[0]):
        return profile
    return f"{source}:{name.replace('.', '/', 1) if source == 'hf' else name}"


@cache
def buildable(profile: str) -> str:
    """A name that `--models` takes, of the architecture that a profile's name stands for; empty: none is known."""
    plain = [name for name in known() if name not in LAYERS_ONLY]
    if profile in plain or is_sourced(profile):
        return profile
    if len(found := shipped(profile)) == 1:
        return found[0]
    if full := next((name for name in named() if profile_name(name) == profile), ""):
        return full
    meant = of_profile(profile)
    return next((name for name in (*plain, *named()) if architecture(name) == meant), "")
