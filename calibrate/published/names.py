"""Names: one for each architecture, GPU, runtime and precision, however a source writes it.

`data/names.csv` holds the spellings, `data/architectures.csv` the architectures and what is known of them. A name that
neither holds is itself.
"""

import csv
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from math import log, prod
from pathlib import Path

from simulator.near import in_any_case, in_letters
from simulator.world.hardware import device_option

DATA = Path(__file__).parent / "data"
WEIGHTS_ONLY = re.compile(r"(?:_ssld|_wsl|_pretrained|\[\d+\]| \([^()]*\))$|^(?:nvidia_|fix_)", re.IGNORECASE)
"""Parts of a name that say how weights were made or who made them, not what the network is."""
TAG = re.compile(r"\.[a-z]\w*$", re.IGNORECASE)
"""timm's name of a set of weights: `resnet50.a1_in1k`."""
MODULE = re.compile(r"^(?:torchvision|timm|(?:tf\.|tensorflow\.)?keras)\.(?:models|applications)\.(?:\w+\.)*(?=\w+$)")
"""Of a package, before the name of a network: `torchvision.models.` of `torchvision.models.resnet50`."""
OPSET = re.compile(r"(?<=v\d)[-_]\d{1,2}$")
"""Version of the operators that the ONNX zoo names its files by: `resnet50-v1-12`."""
YOLO_V = re.compile(r"^yolov(?=1[1-9][nsmlx](?!\w))", re.IGNORECASE)
"""Its authors left the `v` out from the eleventh on."""
REGNET = re.compile(r"regnet[-_ ]?([xy])[-_ ]?(\d+)(?:[._](\d))?[-_ ]?([mg])f", re.IGNORECASE)
"""Of pycls and torchvision, by operations: `RegNetY-1.6GF` and `regnet_y_1_6gf`, which another with 16 GF is not."""
SIZE = re.compile(r"[-_](\d{3})$")
SEQUENCE = re.compile(r"seq(\d+)")
MIG = re.compile(r"\(?(?:\d+x)?(\d+g\.\d+gb)(?:\s+MIG)?\)?", re.IGNORECASE)
GIGABYTES = re.compile(r"-(\d+)GB")
MEMORY = re.compile(r"[\s_-]\d+[\s_-]?GB?(?![^\W_]|\.)", re.IGNORECASE)
"""Of a GPU however it is written: ` 12GB`, `_24 GB` and `-32G`, but not the ` 1g.5gb` of a slice."""
SELLERS = re.compile(
    r"(?<![^\W_])(?:NVIDIA|Tesla|GeForce|AMD|Instinct|Intel|CPU @ [\d.]+ ?GHz)(?![^\W_])|\(R\)|\(TM\)", re.IGNORECASE
)
BESIDES = re.compile(r"(?<![^\W_])(?:HBM\d\w*|OAM|AC|VF|Generation|GPU)(?![^\W_])|(?<=SXM)\d", re.IGNORECASE)
"""What drivers say of a GPU that no other of the same name and memory is without: `HBM3`, and the 5 of `SXM5`."""
GIGA = re.compile(r"(?<=\d) ?G(?=$|[\s_-])", re.IGNORECASE)
"""Of a memory whose unit is cut: `144G`."""
VERSION = re.compile(r" (?:v?\d[\d.]*.*|CUDA.*|\(.*\))$")
ATTACHED = re.compile(r"[_-]?\d[\d.]*$")
"""A version without a blank before it: that of `TensorRT10`."""
SAME_NETWORK = 0.1
"""Of ln(parameters): a classifier of 1,000 classes is 8 % of ResNet-50; the next larger network of a family has a third
more."""
OF_PACKAGE = re.compile(r"(hf|timm|torchvision|ultralytics)\.(.+)")
USUAL_SIZE = 224
USUAL_ACTIVATIONS, ACTIVATIONS_POWER = 4e6, 0.75
"""Numbers that a network of a billion multiply-adds puts out, and how they grow with those (timm's 1,400 networks)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What is known of a network at one size of its input."""

    name: str
    input: str
    """Pixels of a square image's side, or as `canonical_input` writes it; empty: not known."""
    params: float | None
    """Numbers in its weights."""
    macs: float | None
    """Multiply-adds of one sample."""
    activations: float | None
    """Numbers that its convolutions and products put out for one sample (timm's `macts`)."""
    held: float | None = None
    """Numbers besides weights that lie in memory at once, of a network whose layers were traced."""
    kernels: float | None = None
    """Operators that run one after another, of such a network."""


@cache
def architecture(written: str) -> str:
    """The architecture's name: `resnet50` for `PyTorch/Classification/ConvNets/resnet50v1.5`."""
    return identity(written)[0]


@cache
def of_profile(name: str) -> str:
    """The architecture of a profile by its name, where a `:` and a `/` of a package's model are points.

    `bert_base` for `hf.google-bert.bert-base-uncased`.
    """
    if not (of_package := OF_PACKAGE.match(name)):
        return architecture(name)
    source, bare = of_package.groups()
    meant = {full: architecture(full) for full in (f"{source}:{bare}", f"{source}:{bare.replace('.', '/', 1)}")}
    return next((found for full, found in meant.items() if found != full), name)


def meant_by(written: str) -> str:
    """The network that a name of many stands for in published tables: `resnet50` of `resnet`; empty of others."""
    letters, found = in_letters(written), architecture(written)
    return found if letters and in_letters(found).startswith(letters) and in_letters(found) != letters else ""


def identity(written: str, size: str = "") -> tuple[str, str]:
    """The architecture's name and its input: `("vit_b_16", "384")` for `ViT_base_patch16_384`.

    `size` is the input that the source gives beside the name; empty: the one in the name, else that of the benchmark
    whose name it is (`squad` of `bert-99`), else the usual one.
    """
    given = canonical_input(size)
    candidates = [(candidate, "") for candidate in _candidates(written)]
    for candidate, _ in tuple(candidates):
        if sized := SIZE.search(candidate):
            candidates.append((candidate[: sized.start()], sized[1]))
    for known in (_well_known(), _by_key()):
        for candidate, named in candidates:
            if name := known.get(_key(candidate)):
                benchmark = _spellings("input").get(_key(written), "")
                usual = usual_input(name)
                if given.isdigit() and tokens(usual):
                    given = f"seq{given}"
                return name, given or named or benchmark or usual
    return written, given


def gpu(written: str) -> str:
    """The kind of GPU: `A100-80GB` for `NVIDIA A100-SXM4-80GB`; a slice is `A100-80GB-MIG-1g.10gb`."""
    plain = SELLERS.sub("", written).strip(" _-")
    if whole := _spellings("gpu").get(_gpu_key(plain)):
        return whole
    if device_option(written) == "cpu":  # a kind as calibration names it, seller and all
        return written
    if part := MIG.search(plain):
        whole = re.sub("MIG", "", plain[: part.start()], flags=re.IGNORECASE).strip(" _-(")
        return f"{gpu(whole)}-MIG-{part[1].lower()}"
    return plain.replace(" ", "-") if plain != written else written


def gpu_among(written: str, known: Collection[str]) -> str:
    """The known kind of GPU that is meant: `T4` for `t4`, `A100-40GB` for `A100` as published tables have it.

    The word itself where none is.
    """
    candidates = (in_any_case(written, known), gpu(written))
    return next((name for name in candidates if name in known), written)


def gpus_meant(written: str, known: Collection[str]) -> list[str]:
    """The known kinds of GPU that a person may mean who names one: four for `A100`, which has 40 or 80 GB."""
    kind = gpu_among(written, known)
    size = GIGABYTES.search(kind)
    if kind not in known or size is None or size[1] in written:
        return [kind] if kind in known else []
    begin, end = f"{kind[: size.start()]}-", kind[size.end() :]
    alike = (one for one in known if one.startswith(begin) and one.endswith(end))
    return sorted(one for one in alike if bool(MIG.search(one)) == bool(MIG.search(kind)))


def gpu_named(written: str, known: Collection[str]) -> str:
    """The kind that a person means; the word itself where that may be several, or none."""
    meant = gpus_meant(written, known)
    return meant[0] if len(meant) == 1 else written


def gpus_of_family(written: str, known: Collection[str]) -> list[str]:
    """Known kinds by whose letters and figures a name begins, memory aside: `V100` and `V100-32GB` for `V100-PCIe`."""
    plain = _gpu_key(MEMORY.sub("", gpu(written)))
    stems = {kind: _gpu_key(GIGABYTES.sub("", kind)) for kind in known if not MIG.search(kind)}
    return sorted(kind for kind, stem in stems.items() if re.match(rf"{stem}(?!\d)", plain))


@cache
def processors() -> frozenset[str]:
    """Kinds of device with published points that are no GPUs: there batches save little, and one size says enough."""
    return frozenset(name for kind, name, _ in _rows("names.csv") if kind == "processor")


def runtimes() -> set[str]:
    """All that are known by name."""
    return set(_spellings("runtime").values())


def runtime(written: str) -> str:
    """The software that runs the model: `tensorrt` for `TensorRT 8.4.2, CUDA 11.6`."""
    spellings = _spellings("runtime")
    plain = VERSION.sub("", written)
    found = (spellings.get(_key(spelling)) for spelling in (written, plain, ATTACHED.sub("", plain)))
    return next(filter(None, found), written)


def precision(written: str) -> str:
    """`fp16` for `half` or `torch.float16`."""
    return _spellings("precision").get(_key(written.removeprefix("torch.")), written)


def canonical_input(written: str) -> str:
    """`224` for `224x224`, `seq128` for `seq 128`; others without blanks."""
    plain = re.sub(r"^(?:(?:1x)?3x(?=\d+x\d+$)|1x3x|COCO )", "", written.strip())
    sides = plain.split("x")
    if len(sides) == 2 and sides[0] == sides[1]:
        return sides[0]
    return plain.replace(" ", "")


def tokens(size: str) -> int | None:
    """128 of the input `seq128`; None where it is no sequence."""
    found = SEQUENCE.fullmatch(size)
    return int(found[1]) if found else None


def grown(known: str, asked: str) -> float:
    """How many times as much of an input there is: 448 over 224 pixels is 4, seq256 over seq128 is 2.

    1 of inputs that cannot be compared.
    """
    before, after = (extent(size) for size in (known, asked))
    of_one_kind = (tokens(known) is None) == (tokens(asked) is None)
    return after / before if before and after and of_one_kind else 1.0


def extent(size: str) -> float:
    """Pixels or tokens of an input; 0 where they are not known."""
    if found := tokens(size):
        return float(found)
    sides = size.split("x")
    if not all(side.isdigit() for side in sides):
        return 0.0
    return float(prod(map(int, sides))) ** (2 if len(sides) == 1 else 1)


def activations_of(counted: Architecture) -> float:
    """Numbers that its layers put out; those of usual networks of as many operations where nobody counted them."""
    return counted.activations or USUAL_ACTIVATIONS * ((counted.macs or 0.0) / 1e9) ** ACTIVATIONS_POWER


def usual_input(name: str) -> str:
    """The input that an architecture is usually run at; empty: not known."""
    known = architectures().get(name, ())
    return known[0].input if known else ""


def input_of(name: str, macs: float) -> str:
    """The input at which an architecture takes about so many multiply-adds; empty: not known."""
    sizes = {one.input: one.macs for one in architectures().get(name, ()) if one.macs}
    return min(sizes, key=lambda size: abs(log(sizes[size] / macs)), default="") if macs else ""


def is_counted(name: str, size: str) -> bool:
    """Whether operations of an architecture are known at that very input, by which points are learnt."""
    return any(one.input == size and one.macs for one in architectures().get(name, ()))


def facts_of(name: str, size: str = "") -> Architecture | None:
    """What is known of an architecture at that input, else at one whose operations are known; None: nothing."""
    known = architectures().get(name, ())
    counted = [one for one in known if one.macs is not None] or known
    return next((one for one in counted if one.input == size), counted[0] if counted else None)


def has_size_of(params: float, name: str) -> bool:
    """Whether a network of so many parameters is as large as that architecture, but for a head."""
    known = facts_of(name)
    return known is not None and known.params is not None and abs(log(params / known.params)) < SAME_NETWORK


@cache
def architectures() -> dict[str, tuple[Architecture, ...]]:
    """All that are known by name, each at the sizes of input that its figures are known for, the usual one first."""
    found: dict[str, list[Architecture]] = {}
    for name, size, params, macs, activations in _rows("architectures.csv"):
        found.setdefault(name, []).append(
            Architecture(
                name=name,
                input=size,
                params=_millions(params),
                macs=float(macs) * 1e9 if macs else None,
                activations=_millions(activations),
            )
        )
    return {name: tuple(sorted(sizes, key=_unusual)) for name, sizes in found.items()}


def _unusual(architecture: Architecture) -> tuple[bool, int, str]:
    """Sorts the usual input first: the one nearest to 224 pixels."""
    size = architecture.input
    distance = abs(int(size) - USUAL_SIZE) if size.isdigit() else 0
    return not size, distance, size


def without_weights(written: str) -> str:
    """The name without what it says of its weights: `ResNeXt101_32x48d` for `Fix_ResNeXt101_32x48d_wsl`."""
    plain = written
    while (shorter := WEIGHTS_ONLY.sub("", plain)) != plain:
        plain = shorter
    return TAG.sub("", plain)


def _candidates(written: str) -> Iterator[str]:
    """The name, then ever less of it: without folders, who made the weights, and how."""
    last = written.rsplit("/", maxsplit=1)[-1]
    for name in dict.fromkeys((written, last, last.split(":")[-1])):
        yield name
        shorter = YOLO_V.sub("yolo", OPSET.sub("", MODULE.sub("", name)))
        yield shorter
        plain = without_weights(shorter)
        yield plain
        # Paddle's variants of ResNet have timm's letters: `ResNet50_vd` is `resnet50d`.
        yield re.sub(r"_v([cd])(?=_|$)", r"\1", plain, flags=re.IGNORECASE)
        yield REGNET.sub(_timm_regnet, plain)


def _timm_regnet(found: re.Match[str]) -> str:
    """`regnety_016` of 1.6 billion multiply-adds."""
    tenths = int(found[2]) // 100 if found[4] in "mM" else 10 * int(found[2]) + int(found[3] or 0)
    return f"regnet{found[1].lower()}_{tenths:03d}"


@cache
def _well_known() -> dict[str, str]:
    """Names by spelling, plain: spellings that are listed, and networks whose figures are known."""
    counted = {_key(name): name for name, (first, *_) in architectures().items() if first.params}
    return counted | _spellings("architecture")


@cache
def _by_key() -> dict[str, str]:
    """All names, plain."""
    return {_key(name): name for name in architectures()}


@cache
def _spellings(kind: str) -> dict[str, str]:
    """Names of one kind by every spelling, plain."""
    key = _gpu_key if kind == "gpu" else _key
    return {
        key(spelling): name
        for row_kind, name, written in _rows("names.csv")
        if row_kind == kind
        for spelling in (name, *written.split("|"))
    }


def _rows(file: str) -> list[list[str]]:
    with (DATA / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines))[1:]


def _key(written: str) -> str:
    """Letters and digits alone: `ResNeXt50_32x4d` and `resnext50-32x4d` are one."""
    return re.sub(r"[^a-z0-9]", "", written.lower().replace("+", "plus"))


def _gpu_key(written: str) -> str:
    """The same of a GPU, without what its board alone has: `NVIDIA B300 SXM6 AC` is `B300-SXM`."""
    return _key(BESIDES.sub("", GIGA.sub("GB", written)))


def _millions(written: str) -> float | None:
    return float(written) * 1e6 if written else None
