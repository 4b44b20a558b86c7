"""Files of DeepStream, Savant, KServe and Ray Serve become scenarios; damaged ones end in one line each.

The texts were written for these tests, with the keys that real files have: those of deepstream_app_tao_configs and of
deepstream-test5 in NVIDIA/DeepStream, of the samples in insight-platform/Savant, of docs/samples/v1beta1 in
kserve/kserve, and of the documentation of Serve in ray-project/ray. All real files there were read by hand, too.
"""

from pathlib import Path

import pytest
import yaml
from support.commands import planner
from support.planning import V100, profile

from calibrate.library.lookup import Library
from planner.imports.serving.formats import read
from planner.imports.serving.found import (
    TODO,
    Found,
    FoundModel,
    bare_name,
    distinct_names,
    engine_precision,
    shown_address,
)
from planner.imports.serving.scenario_text import Import
from planner.io.load import ScenarioError, load_scenario
from simulator.errors import InputError

DEEPSTREAM = """
# of two cameras and a detector with a classifier
[application]
enable-perf-measurement=1
[source0]
enable=1
type=4
uri=rtsp://door/1
num-sources=1
[source1]
enable=1
type=3
uri=file:///streams/%d.mp4
num-sources=3
[source2]
enable=0
type=4
uri=rtsp://door/2
[streammux]
batch-size=4
batched-push-timeout=40000
[primary-gie]
enable=1
batch-size=4
interval=4
gie-unique-id=1
config-file=detector.txt
[tracker]
enable=1
ll-lib-file=/opt/nvidia/deepstream/deepstream/lib/libnvds_nvmultiobjecttracker.so
[secondary-gie0]
enable=1
model-engine-file=../models/resnet18_vehiclemakenet_pruned.onnx_b16_gpu0_int8.engine
batch-size=16
gie-unique-id=4
operate-on-gie-id=1
operate-on-class-ids=0;2;
config-file=makes.txt
[secondary-gie1]
enable=0
config-file=types.txt
[sink0]
enable=1
type=4
"""
DETECTOR = """
[property]
onnx-file=../models/yolo11s.onnx
model-engine-file=../models/yolo11s.onnx_b4_gpu0_fp16.engine
batch-size=1
network-mode=0
"""
SAVANT = """
name: ${oc.env:MODULE_NAME, 'plates'}
parameters:
  batch_size: 4
  detector: yolo11s
  shape: [3, 640, 640]
pipeline:
  elements:
    - element: nvinfer@detector
      name: ${parameters.detector}
      model:
        format: onnx
        model_file: ${parameters.detector}.onnx
        batch_size: ${parameters.batch_size}
        interval: 1
        input: {shape: "${parameters.shape}"}
    - group:
        init_condition: {expr: a, value: a}
        elements:
          - element: nvtracker
          - element: nvinfer@attribute_model
            name: lpr
            model:
              model_file: ${oc.env:MODELS, /models}/ocrnet-vit.onnx
              precision: INT8
              batch_size: 16
              input: {object: "${parameters.detector}.car"}
    - element: pyfunc
      module: samples.overlay
      class_name: Overlay
"""
KSERVE = """
apiVersion: v1
kind: Secret
metadata: {name: token}
---
apiVersion: "serving.kserve.io/v1beta1"
kind: "InferenceService"
metadata:
  name: sentiment
spec:
  predictor:
    minReplicas: 1
    maxReplicas: 4
    batcher: {maxBatchSize: 32, maxLatency: 50}
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=sentiment, --model_id=bert-base-uncased, --task=fill_mask]
      resources: {limits: {cpu: "4", nvidia.com/gpu: "1"}}
  transformer:
    containers: [{name: kserve-container, image: tokenizer}]
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: iris}
spec: {predictor: {sklearn: {storageUri: gs://models/iris}}}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: pictures}
spec:
  predictor:
    onnx: {storageUri: "gs://models/resnet50"}
"""
RAY = """
proxy_location: EveryNode
applications:
- name: app1
  route_prefix: /
  import_path: app:app
  deployments:
  - name: VideoEncoder
    num_replicas: auto
    max_ongoing_requests: 2
    autoscaling_config: {min_replicas: 1, max_replicas: 32}
    user_config: {max_batch_size: 8, batch_wait_timeout_s: 0.01}
    ray_actor_options: {num_cpus: 2.0, num_gpus: 0.5, accelerator_type: T4}
  - name: MultiDecoder
    ray_actor_options: {num_cpus: 1.0}
- name: hidden
  import_path: other:app
- name: chat
  import_path: ray.serve.llm:build_openai_app
  args: {llm_configs: []}
"""
TEXTS = {"app.txt": DEEPSTREAM, "module.yml": SAVANT, "services.yaml": KSERVE, "serve.yaml": RAY}


def found(folder: Path, text: str, name: str = "file") -> Found:
    """What is found in a file of this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read(path)


def as_yaml(text: str) -> str:
    """A key file as the YAML that DeepStream takes instead."""
    groups: dict[str, dict[str, str]] = {}
    for line in filter(None, text.splitlines()):
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), {})
        elif not line.startswith("#"):
            key, _, value = line.partition("=")
            group[key] = yaml.safe_load(value)
    return yaml.safe_dump(groups, sort_keys=False)


def service(predictor: str) -> str:
    """A manifest of one service."""
    head = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: a}\n"
    return f"{head}spec:\n  predictor: {{{predictor}}}\n"


@pytest.fixture
def application(tmp_path: Path) -> Found:
    (tmp_path / "detector.txt").write_text(DETECTOR)
    return found(tmp_path, DEEPSTREAM, "app.txt")


# DeepStream


def test_models_of_a_deepstream_application(application: Found) -> None:
    detector, makes = application.models
    assert (detector.name, detector.source, detector.batch_size) == ("yolo11s", "yolo11s", 4)
    assert (detector.precision, detector.max_queue_delay_s) == ("fp16", 0.04)  # the engine counts, not network-mode
    assert (makes.name, makes.precision, makes.batch_size) == ("resnet18_vehiclemakenet_pruned", "int8", 16)
    assert makes.max_queue_delay_s == 0
    assert makes.notes[-1] == "Its configuration is not here: makes.txt"


def test_sources_ask_the_primary_model_and_objects_the_secondary(application: Found) -> None:
    cameras, objects = application.streams
    assert (cameras.model, cameras.count, cameras.kind, cameras.rate) == ("yolo11s", 4, "rate", TODO)
    assert "one frame in 5" in cameras.notes[0]
    assert (objects.model, objects.kind) == ("resnet18_vehiclemakenet_pruned", "poisson")
    assert "of class 0, 2 that yolo11s finds" in objects.notes[0]


def test_what_is_off_or_is_no_model_is_listed(application: Found) -> None:
    assert set(application.left_out) == {
        "source2: is off",
        "secondary-gie1: is off",
        "tracker: its work is not planned",
    }


def test_yaml_says_the_same_as_the_key_file(application: Found, tmp_path: Path) -> None:
    other = found(tmp_path, as_yaml(DEEPSTREAM), "app.yml")
    assert (other.models, other.streams, set(other.left_out)) == (
        application.models,
        application.streams,
        set(application.left_out),
    )


def test_an_onnx_file_that_is_here_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "detector.txt").write_text(DETECTOR.replace("../models", "models"))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "yolo11s.onnx").write_bytes(b"onnx")
    assert found(tmp_path, DEEPSTREAM).models[0].source == f"onnx:{tmp_path / 'models' / 'yolo11s.onnx'}"


def test_objects_that_are_looked_at_seldom_are_told(tmp_path: Path) -> None:
    told = "[property]\nonnx-file=makes.onnx\nclassifier-async-mode=1\nsecondary-reinfer-interval=90\n"
    (tmp_path / "makes.txt").write_text(told)
    _, objects = found(tmp_path, DEEPSTREAM).streams
    assert objects.notes[1] == (
        "An object is looked at once, while it is new (classifier-async-mode), "
        "again after 90 frames (secondary-reinfer-interval)"
    )


def test_frames_that_are_not_decoded_are_told(tmp_path: Path) -> None:
    """`drop-frame-interval` counts where frames are decoded."""
    text = DEEPSTREAM.replace("num-sources=3", "num-sources=3\ndrop-frame-interval=5")
    one, three = (stream for stream in found(tmp_path, text).streams if stream.kind == "rate")
    assert (one.count, three.count) == (1, 3)
    assert "one frame in 25 of each (interval 4, drop-frame-interval 5)" in three.notes[0]
    assert one.notes == ("1 source, one frame in 5 of each (interval 4)",)


@pytest.mark.parametrize(
    ("sources", "streams"),
    [
        ("[source0]\nenable=1\ntype=1\ncamera-fps-n=30\ncamera-fps-d=1", [(1, "6 fps")]),
        ("[source0]\nenable=1\ntype=5\ncamera-fps-n=30\ndrop-frame-interval=2", [(1, "3 fps")]),
        ("[source-list]\nlist=a;b;c;\n[source-attr-all]\nenable=1\ntype=3", [(3, TODO)]),
        ("[source-list]\nnum-source-bins=2", [(2, TODO)]),
        ("[source]\ncsv-file-path=sources.csv", [(5, TODO)]),
        ("[source]\ncsv-file-path=elsewhere.csv", [(1, TODO)]),
        ("[application]\nenable-perf-measurement=1", [(1, TODO)]),
    ],
)
def test_sources_are_counted_as_deepstream_does(tmp_path: Path, sources: str, streams: list[tuple[int, str]]) -> None:
    (tmp_path / "sources.csv").write_text("enable,type,uri,num-sources\n1,3,file:a,4\n0,3,file:b,9\n1,4,rtsp://c,1\n")
    text = f"{sources}\n[primary-gie]\nenable=1\ninterval=4\nmodel-engine-file=yolo11s.engine\n"
    assert [(one.count, one.rate) for one in found(tmp_path, text).streams] == streams


def test_a_model_asked_of_triton_goes_by_its_name_there(tmp_path: Path) -> None:
    (tmp_path / "triton.txt").write_text('infer_config { backend { triton { model_name: "peoplenet" version: -1 } } }')
    text = "[primary-gie]\nenable=1\nplugin-type=1\nbatch-size=4\nconfig-file=triton.txt"
    (model,) = found(tmp_path, text).models
    assert (model.name, model.source, model.batch_size) == ("peoplenet", "peoplenet", 4)
    assert model.precision == ""  # Triton knows it


def test_models_that_stand_in_files_of_their_own(tmp_path: Path) -> None:
    """Keys of deepstream_parallel_inference_app in NVIDIA-AI-IOT/deepstream_reference_apps."""
    text = (
        "source: {csv-file-path: sources.csv}\nprimary-gie0: {enable: 1, network-mode: 2}\n"
        "secondary-gie0: {enable: 1, cfg-file-path: colours.yml}\n"
        "secondary-gie1: {enable: 1, cfg-file-path: makers.yml}\n"
    )
    (tmp_path / "colours.yml").write_text(
        "secondary-gie0: {enable: 1, batch-size: 16, model-engine-file: car.engine}\nsecondary-gie1: {enable: 0}\n"
    )
    made = found(tmp_path, text)
    assert [(one.name, one.batch_size, one.precision) for one in made.models] == [
        ("primary-gie0", None, "fp16"),
        ("car", 16, ""),
    ]
    assert made.left_out == (
        "sources.csv, which lists the sources, is not here: one stands for all",
        "secondary-gie1: its models stand in makers.yml, which is not here",
    )


# Savant, KServe, Ray Serve


def test_a_savant_module(tmp_path: Path) -> None:
    module = found(tmp_path, SAVANT)
    detector, plates = module.models
    assert (detector.name, detector.source, detector.batch_size, detector.precision) == (
        "yolo11s",
        "yolo11s",
        4,
        "fp16",
    )
    assert (plates.name, plates.source, plates.batch_size, plates.precision) == ("lpr", "ocrnet-vit", 16, "int8")
    assert "input 3x640x640" in detector.notes[0]
    frames, objects = module.streams
    assert (frames.kind, objects.kind) == ("rate", "poisson")
    assert "one frame in 2" in frames.notes[0]
    assert "each car that yolo11s finds" in objects.notes[0]
    assert module.left_out == ("nvtracker: its work is not planned", "pyfunc samples.overlay: its work is not planned")


@pytest.mark.parametrize(
    ("stated", "precision", "batch"),
    [
        ("", "", None),
        (", precision: int8, batch_size: 4", "int8", 4),
        (", engine_file: a_b2_gpu0_fp32.engine", "fp32", None),
    ],
)
def test_a_configuration_of_nvinfer_has_no_defaults_of_savant(
    tmp_path: Path, stated: str, precision: str, batch: int | None
) -> None:
    element = f"{{element: nvinfer@detector, name: a, model: {{config_file: /c/pgie.txt{stated}}}}}"
    (model,) = found(tmp_path, f"pipeline: {{elements: [{element}]}}\n").models
    assert (model.precision, model.batch_size) == (precision, batch)
    assert model.notes[-1] == "What its configuration says is not read: pgie.txt"


def test_a_kserve_manifest(tmp_path: Path) -> None:
    manifest = found(tmp_path, KSERVE)
    sentiment, pictures = manifest.models
    assert (sentiment.name, sentiment.source, sentiment.batch_size) == ("sentiment", "hf:bert-base-uncased", 32)
    assert sentiment.max_queue_delay_s == 0.05
    assert sentiment.notes[1] == "asks for 1 nvidia.com/gpu, minReplicas 1, maxReplicas 4"
    assert (pictures.name, pictures.source, pictures.notes[1]) == ("pictures", "resnet50", "asks for no GPU")
    assert set(manifest.left_out) == {
        "iris: is sklearn, which runs on processors",
        "Secret token: is no InferenceService",
        "transformer of sentiment: runs code of its own, which is not planned",
    }


@pytest.mark.parametrize(
    ("predictor", "source"),
    [
        ("model: {modelFormat: {name: huggingface}, storageUri: 'hf://BAAI/bge-m3:main'}", "hf:BAAI/bge-m3"),
        ("model: {modelFormat: {name: huggingface}, args: [--model_id, BAAI/bge-m3]}", "hf:BAAI/bge-m3"),
        ("pytorch: {storageUri: 'gs://models/resnet50/'}", "resnet50"),
        ("model: {modelFormat: {name: onnx}, storage: {key: minio, path: models/yolo11s.onnx}}", "yolo11s"),
        ("containers: [{image: mine}]", ""),
    ],
)
def test_what_kserve_serves(tmp_path: Path, predictor: str, source: str) -> None:
    assert found(tmp_path, service(predictor)).models[0].source == source


def test_what_kserve_tells_its_server(tmp_path: Path) -> None:
    """The options are those of KServe's server of Hugging Face models (its README)."""
    args = "[--model_id=google-bert/bert-base-uncased, --dtype, float16, --max_length=256, --disable_lower_case]"
    env = "[{name: HF_TOKEN, value: hidden}]"
    manifest = found(tmp_path, service(f"model: {{modelFormat: {{name: huggingface}}, args: {args}, env: {env}}}"))
    (model,) = manifest.models
    assert (model.source, model.precision) == ("hf:google-bert/bert-base-uncased", "fp16")
    assert manifest.warnings == ("a is told what is not read: --max_length 256, --disable_lower_case, HF_TOKEN",)


SECRETS = ("hf_SECRET", "pa55word", "s1gn3d")


@pytest.mark.parametrize(
    "told",
    [
        "command: [sh, -c, 'HF_TOKEN=hf_SECRET python serve.py']",
        "args: [--db, 'postgres://user:pa55word@host/x']",
        "args: ['--db=postgres://user:pa55word@host/x']",
        "args: [--auth, hf_SECRET]",
        "args: [-phf_SECRET]",
        "args: ['--hf_SECRET:x y=3']",
        "env: [{name: ANYTHING, value: pa55word}]",
    ],
)
def test_nothing_that_a_server_is_told_is_shown_but_names_and_numbers(tmp_path: Path, told: str) -> None:
    uri = "storageUri: 'https://user:pa55word@host/models/yolo11s.onnx?sig=s1gn3d'"
    (path := tmp_path / "k.yaml").write_text(service(f"model: {{modelFormat: {{name: onnx}}, {uri}, {told}}}"))
    code, shown, said = planner("init", tmp_path / "s.yaml", "--from", path)
    assert code == 0, said
    everything = shown + said + (tmp_path / "s.yaml").read_text()
    assert not [one for one in SECRETS if one in everything]
    assert "https://host/models/yolo11s.onnx" in everything


@pytest.mark.parametrize("user", ["user:pa/55word", "user:p@55word", "pa55word"])
def test_addresses_are_shown_without_who_may_read_them(user: str) -> None:
    assert shown_address(f"https://{user}@host/models/a.onnx?sig=s1gn3d#part") == "https://host/models/a.onnx"


def test_a_model_of_the_hub_is_shown_as_addresses_are(tmp_path: Path) -> None:
    told = "args: ['--model_id=https://user:pa55word@host/bert?sig=s1gn3d']"
    (path := tmp_path / "k.yaml").write_text(service(f"model: {{modelFormat: {{name: huggingface}}, {told}}}"))
    _, shown, said = planner("init", tmp_path / "s.yaml", "--from", path)
    written = (tmp_path / "s.yaml").read_text() if (tmp_path / "s.yaml").exists() else ""
    assert not [one for one in ("pa55word", "s1gn3d") if one in shown + said + written]


def test_what_callers_name_a_model_is_not_what_it_is(tmp_path: Path) -> None:
    uri = "storageUri: 'hf://google-bert/bert-base-uncased'"
    for told in ("args: [--model_name=fraud]", "env: [{name: MODEL_NAME, value: fraud}]"):
        manifest = found(tmp_path, service(f"model: {{modelFormat: {{name: huggingface}}, {uri}, {told}}}"))
        assert manifest.models[0].source == "hf:google-bert/bert-base-uncased"


@pytest.mark.parametrize(
    ("told", "source", "precision"),
    [
        ("user_config: {model_name: resnet50, torch_dtype: bfloat16}", "resnet50", "bf16"),
        ("user_config: {checkpoint: models/yolo11s.onnx, dtype: auto}", "yolo11s", ""),
        ("user_config: {model_path: timm/resnet50.a1_in1k}", "timm:resnet50.a1_in1k", ""),
        ("ray_actor_options: {num_gpus: 1, runtime_env: {env_vars: {MODEL_ID: BAAI/bge-m3}}}", "hf:BAAI/bge-m3", ""),
    ],
)
def test_what_ray_serve_tells_a_deployment(tmp_path: Path, told: str, source: str, precision: str) -> None:
    app = "{name: a, import_path: a:app, args: {model: other, warm: true}, deployments: [{name: b, %s}]}"
    config = found(tmp_path, f"applications: [{app % told}]")
    asked = "other" if "user_config" not in told else source
    assert (config.models[0].source, config.models[0].precision) == (asked, precision)
    alone = found(tmp_path, f"applications: [{app.replace('model: other, ', '') % told}]")
    assert alone.models[0].source == source
    assert "warm true" in alone.warnings[0]
    both = ", ".join(app.replace("name: a", f"name: {name}") % told for name in "ac")
    twice = found(tmp_path, f"applications: [{both}]")
    assert [warning.endswith("(2 times)") for warning in twice.warnings] == [True]


def scenario_of_hub(folder: Path, model: str) -> tuple[Path, str]:
    """The scenario of one model of the hub that KServe serves, and what is said of it."""
    path, out = folder / "k.yaml", folder / "s.yaml"
    path.write_text(service(f"model: {{modelFormat: {{name: huggingface}}, args: ['--model_id={model}']}}"))
    code, shown, _ = planner("init", out, "--from", path)
    assert code == 0
    return out, " ".join(shown.split())


def test_what_is_written_can_be_planned(tmp_path: Path) -> None:
    """`google-bert/` is the owner that Hugging Face gave BERT; it is shipped without one."""
    out, shown = scenario_of_hub(tmp_path, "google-bert/bert-base-uncased")
    assert "Fetch it" not in shown
    text = out.read_text(encoding="utf-8").replace("latency: TODO", "latency: 1 s").replace("TODO", "1 rps")
    out.write_text(text, encoding="utf-8")
    assert planner("plan", out, "--set", "buy.gpus=[T4]", "--set", "confidence=50 %")[0] == 0


def test_what_is_missing_before_a_plan_is_said(tmp_path: Path) -> None:
    _, shown = scenario_of_hub(tmp_path, "acme/no-such")
    assert "hf:acme/no-such: its configuration is not on this machine" in shown
    assert "hf download acme/no-such config.json" in shown


def test_a_ray_serve_config(tmp_path: Path) -> None:
    config = found(tmp_path, RAY)
    (model,) = config.models
    assert (model.name, model.batch_size, model.max_queue_delay_s) == ("VideoEncoder", 8, 0.01)
    assert model.notes == (
        "VideoEncoder of app:app: 0.5 GPU for each replica, on T4",
        "num_replicas auto, min_replicas 1, max_replicas 32, 2 requests at once",
    )
    assert config.left_out == (
        "MultiDecoder of app1: asks for no GPU",
        "hidden: names no deployments, its code does",
        "chat: generates tokens, which this import does not read",
    )


def test_gpus_of_a_placement_group_count(tmp_path: Path) -> None:
    bundles = "ray_actor_options: {num_cpus: 1}, placement_group_bundles: [{CPU: 1}, {CPU: 1, GPU: %s}]"
    config = found(tmp_path, deployments(f"{{name: a, {bundles % 0.5}}}", f"{{name: b, {bundles % 0}}}"))
    (model,) = config.models
    assert (model.name, model.notes[0]) == ("a", "a of a:app: 0.5 GPU for each replica")
    assert config.left_out == ("b of a: asks for no GPU",)


def test_a_ray_service_holds_a_config(tmp_path: Path) -> None:
    inside = "\n".join(f"    {line}" for line in RAY.splitlines())
    service = f"apiVersion: ray.io/v1\nkind: RayService\nspec:\n  serveConfigV2: |\n{inside}\n"
    assert found(tmp_path, service).models == found(tmp_path, RAY).models


def test_a_plan_exported_to_ray_serve_comes_back(tmp_path: Path) -> None:
    from support.answers import PLAN

    from planner.exports.fleet import machines
    from planner.exports.ray_serve import serve_files

    text = serve_files(PLAN, machines(PLAN.recommendation))["serve_config.yaml"]
    back = {model.name: model for model in found(tmp_path, text).models}
    asked = {model.name: model for model in PLAN.recommendation.models}
    assert back.keys() == asked.keys()
    assert [back[name].max_queue_delay_s for name in back] == [asked[name].max_queue_delay_s for name in back]
    assert back["vgg16"].source == "vgg16"  # torchvision's, which needs no torch to be planned


# The scenario


@pytest.mark.parametrize("name", TEXTS)
def test_the_scenario_loads_once_its_reader_wrote_what_only_they_know(tmp_path: Path, name: str) -> None:
    path, out = tmp_path / name, tmp_path / "s.yaml"
    path.write_text(TEXTS[name], encoding="utf-8")
    code, shown, said = planner("init", out, "--from", path)
    assert (code, said) == (0, "")
    assert f"Wrote {out}." in shown
    text = out.read_text(encoding="utf-8")
    with pytest.raises(ScenarioError, match="must be a duration, got `TODO`"):
        load_scenario(out)
    for key, value in (("latency", "100 ms"), ("rate", "5 fps"), ("poisson", "2 rps"), ("precision", "fp16")):
        text = text.replace(f"{key}: {TODO}", f"{key}: {value}")
    out.write_text(text, encoding="utf-8")
    scenario = load_scenario(out).scenario
    models = read(path).models
    assert [(one.name, one.max_queue_delay) for one in scenario.models] == [
        (one.name, one.max_queue_delay_s) for one in models
    ]
    assert {stream.model for stream in scenario.streams} == {model.name for model in models}


def test_what_is_known_by_its_file_is_planned(tmp_path: Path) -> None:
    path, out = tmp_path / "module.yml", tmp_path / "s.yaml"
    path.write_text(SAVANT, encoding="utf-8")
    assert planner("init", out, "--from", path)[0] == 0
    text = out.read_text(encoding="utf-8")
    assert "perhaps" not in text.partition("name: lpr")[0]
    assert "# model: NAME" in text.partition("name: lpr")[2]  # ocrnet-vit is none that is known


def written(folder: Path, text: str) -> tuple[str, str]:
    """The scenario of such a file, and what is said of it."""
    path, out = folder / "file", folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    code, shown, _ = planner("init", out, "--from", path)
    assert code == 0
    return out.read_text(encoding="utf-8"), " ".join(shown.split())


def deployments(*told: str) -> str:
    """A config of Ray Serve."""
    return f"applications: [{{name: a, import_path: a:app, deployments: [{', '.join(told)}]}}]\n"


def test_keys_that_yaml_merges_are_those_of_the_mapping(tmp_path: Path) -> None:
    """As PyYAML has it, which Ray reads its configs with."""
    first = (
        "&a {name: resnet50, ray_actor_options: {num_gpus: 0.5}, user_config: &c {max_batch_size: 8, dtype: float16}}"
    )
    second = "{<<: *a, name: yolov3, user_config: {<<: [{max_batch_size: 4}, *c]}}"
    third = "{<<: *a, name: on-processors, ray_actor_options: {num_cpus: 1}}"
    config = found(tmp_path, deployments(first, second, third))
    assert [(one.name, one.batch_size, one.precision) for one in config.models] == [
        ("resnet50", 8, "fp16"),
        ("yolov3", 4, "fp16"),
    ]
    assert config.left_out == ("on-processors of a: asks for no GPU",)
    theirs = yaml.safe_load(deployments(first, second, third))["applications"][0]["deployments"]
    assert [one["user_config"]["max_batch_size"] for one in theirs] == [8, 4, 8]


def test_a_name_that_a_plan_takes_is_known(tmp_path: Path) -> None:
    """Nothing but the deployments' names says what they serve; a source that is not known leaves it at that, too."""
    other = "{name: resnet50, user_config: {model: prod}}"
    text, shown = written(tmp_path, deployments("{name: yolov3}", "{name: nothing-known}", other))
    assert "It is not known what nothing-known may be" in shown
    assert "yolov3 yolov3" in shown
    assert "  - name: resnet50 # by which it is planned: `prod` is not known\n" in text
    assert [line for line in text.splitlines() if "model:" in line and "- {" not in line] == [
        "    # model: NAME # what it is: docs/models.md has names, also of files"
    ]


def test_engines_are_planned_in_tensorrt(tmp_path: Path) -> None:
    (tmp_path / "detector.txt").write_text(DETECTOR)
    for text in (DEEPSTREAM, SAVANT):
        scenario = yaml.safe_load(written(tmp_path, text)[0])
        assert [model["runtime"] for model in scenario["models"]] == ["tensorrt", "tensorrt"]
        assert [model["precision"] for model in scenario["models"]] == ["fp16", "int8"]
        (tmp_path / "s.yaml").unlink()


def test_the_precision_of_an_engine_that_no_file_names_is_asked_for(tmp_path: Path) -> None:
    text, shown = written(tmp_path, "[primary-gie]\nmodel-engine-file=yolo11s.engine\nconfig-file=gone.txt\n")
    assert "the precision of yolo11s." in shown
    assert "precision: TODO\n    runtime: tensorrt\n" in text


@pytest.mark.parametrize(("kind", "runtime"), [("onnx", "onnxruntime"), ("pytorch", "pytorch"), ("triton", None)])
def test_formats_of_kserve_are_planned_in_their_runtime(tmp_path: Path, kind: str, runtime: str | None) -> None:
    text, _ = written(tmp_path, service(f"{kind}: {{storageUri: 'gs://models/resnet50'}}"))
    assert yaml.safe_load(text)["models"][0].get("runtime") == runtime


@pytest.mark.parametrize("told", ["--task=text_generation", "--backend=vllm"])
def test_what_kserve_generates_is_left_out(tmp_path: Path, told: str) -> None:
    tokens = service(f"model: {{modelFormat: {{name: huggingface}}, args: [--model_id=gpt2, {told}]}}")
    manifest = found(tmp_path, f"{tokens}---\n{service('onnx: {}').replace('name: a', 'name: b')}")
    assert [model.name for model in manifest.models] == ["b"]
    assert manifest.left_out == ("a: generates tokens, which this import does not read",)


@pytest.mark.parametrize("dims", ["3;320;320", "320;320;3;"])
def test_a_model_of_another_size_is_told(tmp_path: Path, dims: str) -> None:
    (tmp_path / "detector.txt").write_text(f"{DETECTOR}infer-dims={dims}\n")
    _, shown = written(tmp_path, DEEPSTREAM)
    assert f"yolo11s: takes {dims.strip(';').replace(';', 'x')}, a plan counts yolo11s at 3x640x640" in shown
    assert "write `model: ultralytics:yolo11s` with that `input`" in shown


def test_no_file_is_written_over(tmp_path: Path) -> None:
    path, out = tmp_path / "module.yml", tmp_path / "s.yaml"
    path.write_text(SAVANT, encoding="utf-8")
    out.write_text("mine")
    code, _, said = planner("init", out, "--from", path)
    assert (code, out.read_text()) == (2, "mine")
    assert "exists already" in said


# Damaged and foreign files


PRIMARY = "[primary-gie]\nenable=1\n"
DAMAGED = [
    ("", "is empty. Name a DeepStream application"),
    ("models:\n- name: a\n", "is none that is read. Name a DeepStream application, a Savant module"),
    ("infer_config {\n  max_batch_size: 4\n}\n", "configures one model for Triton. Name the file of the application"),
    ("[property]\nonnx-file=a.onnx\n", "It configures one model: name the file of the application that runs it."),
    ("[primary-gie]\nenable 1\n", ":2: must be `key=value`, got `enable 1`. Mend the file."),
    ("# a\n[primary-gie]\nenable=0\n", "runs no model: off are primary-gie"),
    ("[source0]\nenable=1\n", "runs no model: there is no `primary-gie`"),
    (
        f"{PRIMARY}batch-size=many\n",
        ":3:12: `primary-gie.batch-size` must be a whole number, got `many`. Mend the file.",
    ),
    (f"{PRIMARY}interval=-1\n", ":3:10: `primary-gie.interval` must be a whole number of at least 0, got `-1`."),
    ("primary-gie: [1]\n", ":1:14: `primary-gie` must be a mapping of keys to values, got a list. Mend the file."),
    ("primary-gie: {a: 1\n", "is not YAML"),
    ("primary-gie: {enable: 1, enable: 0}\n", "key `enable` is given twice"),
    ("primary-gie: !run {enable: 1}\n", "has the tag `!run`"),
    ("pipeline: {elements: [{element: pyfunc}]}\n", "runs no model: no element is `nvinfer@...`"),
    ("pipeline: {elements: [{element: nvinfer@detector, name: a, model: {batch_size: 0}}]}\n", "at least 1, got 0"),
    ("apiVersion: serving.kserve.io/v1alpha1\nkind: ServingRuntime\n", "holds no InferenceService"),
    (KSERVE.partition("---\n")[2].partition("---\n")[2].partition("---\n")[0], "only models that are no networks"),
    (
        service("pytorch: {resources: {limits: {nvidia.com/gpu: -5}}}"),
        "limits.nvidia.com/gpu` must be a whole number of at least 0, got -5. Mend the file.",
    ),
    (service("").replace("predictor: {}", "{}"), "holds no InferenceService with a `spec.predictor`"),
    ("applications: []\n", "names no deployment on a GPU"),
    ("applications: [{name: a, deployments: [{name: b, ray_actor_options: {num_gpus: all}}]}]", "must be a number"),
    ("kind: RayService\nspec: {}\n", "`spec.serveConfigV2` must be a text with the config of a RayService"),
    ("a: 1\n---\nb: 2\n---\nprimary-gie: [\n", "is not YAML"),
]


@pytest.mark.parametrize(("text", "said"), DAMAGED, ids=[said[:40] for _, said in DAMAGED])
def test_a_file_that_cannot_be_imported_ends_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path, out = tmp_path / "file", tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    code, shown, told = planner("init", out, "--from", path)
    assert (code, shown, told.count("\n"), out.exists()) == (2, "", 1, False)
    assert told.startswith(str(path))
    assert said in told


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "`planner from-triton` reads a model repository"),
    ):
        with pytest.raises(InputError, match=said):
            read(path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8"):
        read(tmp_path / "bytes")


def test_the_place_in_a_later_document_is_that_in_the_file(tmp_path: Path) -> None:
    text = f"kind: Secret\n---\n{service('onnx: {}, minReplicas: some')}"
    with pytest.raises(InputError, match=r"file:7:\d+: `spec.predictor.minReplicas` must be a whole number"):
        found(tmp_path, text)


# Names


@pytest.mark.parametrize(
    ("file", "name", "precision"),
    [
        ("../models/yolo11s.onnx_b4_gpu0_fp16.engine", "yolo11s", "fp16"),
        ("resnet18_trafficcamnet_pruned.etlt_b1_gpu0_int8.engine", "resnet18_trafficcamnet_pruned", "int8"),
        ("yolo11s.engine", "yolo11s", ""),
        ("C:\\models\\yolov8n.onnx", "yolov8n", ""),
        ("efficientnet_b0", "efficientnet_b0", ""),
    ],
)
def test_a_model_goes_by_its_file(file: str, name: str, precision: str) -> None:
    assert (bare_name(file), engine_precision(file)) == (name, precision)


def test_namesakes_are_numbered() -> None:
    assert distinct_names(["a", "a", "a-2", "a", "b c"]) == ["a", "a-2", "a-2-2", "a-3", "b-c"]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (FoundModel(name="mine", source="mine", runtime="onnxruntime"), "mine is known in pytorch, not in onnxruntime"),
        (FoundModel(name="mine", profile="mine", runtime="tensorrt"), "mine is known in pytorch, not in tensorrt"),
        (FoundModel(name="mine", source="mine", runtime="pytorch"), ""),
        (FoundModel(name="mine", source="mine"), ""),
        (FoundModel(name="resnet50", source="resnet50", runtime="tensorrt"), ""),
    ],
)
def test_a_model_that_is_measured_in_another_runtime_is_told(model: FoundModel, told: str, tmp_path: Path) -> None:
    """Where only its profiles know it: layers and published times tell of every runtime."""
    mine = profile("mine", V100, 0.004, 0.001)
    made = Found(path=tmp_path / "s.yaml", name="s", models=(model,), streams=())
    obstacles = Import(made, Library({("mine", "V100", "fp32"): mine})).obstacles
    assert [told in one for one in obstacles] == [True] * bool(told)


TRITON = """name: "resnet50"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  {
    name: "x"
    data_type: TYPE_FP32
    dims: [ 3, 224, 224 ]
  }
]
"""


@pytest.mark.parametrize("called", ["config.pbtxt", "model.txt"])
@pytest.mark.parametrize("text", [TRITON, 'name: "resnet50"\nplatform: "onnxruntime_onnx"\n'])
def test_a_model_of_triton_names_what_reads_its_repository(called: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "models" / "resnet50" / called
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read(file)
    remedy = f"`planner from-triton {tmp_path / 'models'}`"
    assert (
        str(error.value) == f"{file}: configures one model of a Triton server. Read the folder of its models: {remedy}."
    )
