"""`python -m calibrate.joint SPEC.json`: trains models to share layers, and measures what that costs their accuracy.

Group by group, most memory saved first, as GEMEL (NSDI'23) does. Imports and runs the tasks' own code.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate.devices import provenance
from calibrate.devices.device import DeviceError, find_device
from calibrate.io.files import FileError, parse_json, printable, read_json
from calibrate.io.process import end_with
from calibrate.joint.curve import CurvePoint, SharedCurve, curve_document
from calibrate.joint.spec import CURVE, JointSpec, SpecError, read_spec
from calibrate.joint.state import JointError, JointWork, Progress
from calibrate.joint.training import Say, Training, build, met, tied, weights_of
from simulator.world.sharing import (
    LEAST_SHARE,
    Group,
    LayerRule,
    Sharing,
    SharingError,
    bound_together,
    common_stem,
    group_document,
    groups,
    read_group,
    saved_bytes,
    search,
    weighty,
)


@dataclass(frozen=True, slots=True)
class Joint:
    """A joint training: its tasks, and what was done of it so far."""

    training: Training
    models: Mapping[str, Sequence[Any]]
    """Layers, by model."""
    machine: Mapping[str, Any]
    """Provenance."""

    @property
    def work(self) -> JointWork:
        return self.training.work

    def run(self) -> None:
        """Each model alone, then one sharing after the other. The curve is on disk after each."""
        candidates = groups(self.models)  # first: models that cannot be compared cost no training
        for name in self.models:
            if name not in self.work.state.alone:
                self.train_alone(name)
        self.write_curve()
        spec = self.training.spec
        tried = iter(list(self.work.state.attempts))
        total = sum(layer.weight_bytes for layers in weighty(self.models).values() for layer in layers)

        def judge(sharing: Sharing) -> Mapping[str, float]:
            """The accuracy found before, if any, so that a resumed search comes to where it was."""
            kept = next(tried, None)
            return kept["accuracy"] if kept else self.train_together(sharing)

        search(candidates, judge, spec.targets, least_bytes=round(LEAST_SHARE * total), attempts_max=spec.attempts)

    def train_alone(self, name: str) -> None:
        """Train one model by itself where the spec asks for it; keep its weights and its accuracy."""
        module = self.training.nets[name].task.model.to(self.work.device)
        stage = f"{name} alone"
        progress = self.training.run(stage, {name: module}, self.training.spec.epochs_alone, {}, None)
        value = progress.history[progress.best][name]
        if progress.diverged:
            raise JointError(f"task {name}: its loss alone is no number any more. Lower `learning_rate`.")
        if value == 0:
            raise JointError(
                f"task {name}: its accuracy alone is 0, of which no share can be kept. Train it: `epochs_alone`."
            )
        weights = (self.work.weights() if self.work.state.alone else {}) | weights_of({name: module})
        module.cpu()
        self.work.state.alone[name] = value
        self.work.keep_weights(weights)
        self.work.finish()

    def train_together(self, sharing: Sharing) -> Mapping[str, float]:
        """Accuracy of every model with this sharing, over that alone; it stands if all keep their targets."""
        state, group = self.work.state, sharing[-1]
        names = bound_together(sharing, group.models)
        stage = f"sharing {len(state.attempts) + 1}"
        self.training.say(f"{stage}: {described(group)}; {', '.join(names)} are trained together")
        weights = self.work.weights()
        modules = tied(self.training.nets, names, weights, sharing, self.work.device)
        spec = self.training.spec
        targets = {name: spec.targets[name] for name in names}
        progress = self.training.run(stage, modules, spec.epochs, state.alone, targets)
        accepted = not progress.diverged and met(progress.history[-1], targets)
        accuracy = {**self.standing(), **progress.history[-1]}
        state.attempts.append(attempt(sharing, accuracy, accepted, progress))
        if accepted:
            self.work.keep_weights(weights | weights_of(modules))
        self.work.finish()
        self.write_curve()
        verdict, saved = "does not hold", "back to the weights before"
        if accepted:
            verdict, saved = "holds", f"{saved_bytes(sharing):,} bytes saved by now"
        self.training.say(f"{stage}: {verdict} after {progress.epochs} epochs, {saved}")
        return accuracy

    def standing(self) -> dict[str, float]:
        """Accuracy of every model as it stands, over that alone."""
        accepted = [tried["accuracy"] for tried in self.work.state.attempts if tried["accepted"]]
        return dict(accepted[-1]) if accepted else dict.fromkeys(self.models, 1.0)

    def write_curve(self) -> None:
        """The curve as far as it goes."""
        state = self.work.state
        sizes = {name: weight_bytes(net.task.model) for name, net in self.training.nets.items()}
        points = tuple(map(point_of, state.attempts))
        document = curve_document(
            SharedCurve(sizes, points),
            state.alone,
            targets=self.training.spec.targets,
            attempts=[{key: tried[key] for key in ("accepted", "epochs", "trained")} for tried in state.attempts],
            shareable_bytes=saved_bytes(groups(self.models)),
            stem_bytes=saved_bytes(common_stem(self.models)),
            branching_stem_bytes=saved_bytes(groups(self.models, LayerRule.STEM)),
            weights=state.weights,
            spec=state.spec,
            provenance=self.machine,
        )
        self.work.write_json(CURVE, document)


def attempt(sharing: Sharing, accuracy: Mapping[str, float], accepted: bool, progress: Progress) -> dict[str, Any]:
    """One sharing that was tried, as the state keeps it."""
    return {
        "groups": [group_document(group) for group in sharing],
        "accuracy": dict(accuracy),
        "accepted": accepted,
        "epochs": progress.epochs,
        "trained": list(progress.history[-1]),
        "wall_s": progress.wall_s,
    }


def weight_bytes(model: Any) -> int:
    """Bytes of all that a model's state holds."""
    return sum(tensor.nbytes for tensor in model.state_dict().values())


def point_of(tried: Mapping[str, Any]) -> CurvePoint:
    """A sharing that was tried, as the curve has it."""
    return CurvePoint(tuple(map(read_group, tried["groups"])), tried["accuracy"], tried["wall_s"])


def described(group: Group) -> str:
    """`Linear of 262,656 bytes in 3 models`: what one more layer is."""
    return f"{group.signature.kind} of {group.layer_bytes:,} bytes in {len(group.models)} models"


# The command


def train(spec: JointSpec, folder: Path, device: str, *, resume: bool, say: Say) -> None:
    """Train as the spec says, in a folder; JointError, SharingError or DeviceError in one line where that cannot be."""
    machine = provenance.read(find_device(device))
    with JointWork(folder, spec, device, resume=resume) as work:
        nets = {task.name: build(task, spec.seed) for task in spec.tasks}
        training = Training(work, spec, nets, say)
        Joint(training, {name: net.layers for name, net in nets.items()}, machine).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 when all is trained, 2 where the input is wrong, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="python -m calibrate.joint", description=__doc__)
    parser.add_argument("spec", help="JSON file with the tasks, or - for standard input")
    parser.add_argument("--out", type=Path, required=True, help="folder for curve.json and the merged weights")
    parser.add_argument("--device", default="cpu", help="cuda:0, cuda:1, ... or cpu (default)")
    parser.add_argument("--resume", action="store_true", help="go on where the training in --out ended")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.parent is not None:
        end_with(given.parent)
    try:
        raw = parse_json(sys.stdin.buffer.read()) if given.spec == "-" else read_json(Path(given.spec))
        spec = read_spec(raw)
        train(spec, given.out, given.device, resume=given.resume, say=silent if given.quiet else note)
    except FileError as error:
        return refuse(f"{given.spec}{error.place}: {error}. Name a JSON file.")
    except SpecError as error:
        return refuse(f"{given.spec}: {error}")
    except (JointError, SharingError, DeviceError) as error:
        return refuse(str(error))
    except KeyboardInterrupt:
        note("Interrupted. The same command with --resume continues.")
        return 130
    return 0


def refuse(text: str) -> int:
    """Say what is wrong, in one line."""
    note(" ".join(text.split()))
    return 2


def note(text: str) -> None:
    """A line for people."""
    print(printable(text), file=sys.stderr, flush=True)


def silent(_text: str) -> None:
    """Say nothing."""
