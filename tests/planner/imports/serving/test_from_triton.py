"""A Triton model repository becomes a scenario; its configuration is read as Google's own protobuf reads it."""

import pytest
import yaml
from support.paths import SCENARIOS
from typer.testing import CliRunner

from planner import cli
from planner.imports.serving.found import TODO
from planner.imports.serving.from_triton import read_repository, scenario_name, wishes
from planner.imports.serving.textproto import parse
from planner.imports.serving.triton_config import FIELDS, INTEGERS, checked, read_config
from planner.io.load import ScenarioError, load_scenario
from simulator.errors import InputError

RESNET = """# ONNX, as in the server's own examples
name: "resnet50"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  { name: "input", data_type: TYPE_FP32, format: FORMAT_NCHW, dims: [ 3, 224, 224 ] }
]
output [
  { name: "probabilities" data_type: TYPE_FP32 dims: [ 1000 ] label_filename: 'labels.txt' }
]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 5000
  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 100000 }
}
instance_group [ { count: 2, kind: KIND_GPU, gpus: [ 0, 1 ] } ]
optimization { execution_accelerators { gpu_execution_accelerator : [ { name : "tensorrt"
  parameters { key: "precision_mode" value: "FP16" } } ] } }
"""
BERT = """backend: "pytorch"  max_batch_size: 0x10;
version_policy: { specific: { versions: [ 1, 3 ] } }
instance_group < kind: KIND_GPU
  rate_limiter { resources [ { name: "R1" count: 4 }, { global: True name: "R2" count: 2 } ] priority: 2 } >
instance_group { kind: KIND_CPU passive: true, count: 01 }
dynamic_batching { }
parameters: { key: "tokenizer" value: { string_value: "a \\"quoted\\"\\t\\x41\\101\\u00e9 \\U0001F600"
                                                      ' and more' } }
model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_INT64 dims: -1 zero_data: true } } }
"""
SEQUENCE = """name: "asr"
sequence_batching { max_sequence_idle_microseconds: 5000000
  direct { minimum_slot_utilization: 0.5 }
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1.5e0f ] } ] } ] }
response_cache { enable: true } model_transaction_policy { decoupled: f }
model_metrics { metric_control [ { metric_identifier { family: "nv" }
  histogram_options { buckets: [ -1, 1., .5, inf ] } } ] }
"""
ENSEMBLE = """platform: "ensemble"
ensemble_scheduling { step [ { model_name: "resnet50" model_version: -1 input_map { key: "a" value: "b" } },
                             { model_name: "bert", model_version: -1 } ] }
"""
CONFIGS = {"resnet50": RESNET, "bert": BERT, "asr": SEQUENCE, "pipe": ENSEMBLE}


def repository(folder, **configs):
    """A model repository with these configurations, and a model file of 1 MB in version 1 of each."""
    for name, text in configs.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "1" / "model.onnx").write_bytes(bytes(1_000_000))
        (folder / name / "config.pbtxt").write_text(text, encoding="utf-8")
    return folder


def run(*words):
    """Exit code, standard output and standard error of the command line."""
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


# Against Google's protobuf and Triton's own description


def described():
    return pytest.importorskip("tritonclient.grpc.model_config_pb2").ModelConfig


def as_google(message, kind):
    """What Google's protobuf holds, in the form of `checked`: only what was given, opaque messages empty."""
    plain = {}
    for about, got in message.ListFields():
        wanted = FIELDS[kind][about.name]
        repeated = isinstance(wanted, list)
        inner = wanted[0] if repeated else wanted

        def one(value, inner=inner, about=about):
            if inner in FIELDS:
                return as_google(value, inner)
            if inner == "message":
                return {}
            return about.enum_type.values_by_number[value].name if about.enum_type else value

        if about.name == "parameters":  # a map, which reads as a list of entries
            held = {key: got[key] if kind == "Accelerator" else as_google(got[key], "ModelParameter") for key in got}
            plain[about.name] = [{"key": key, "value": value} for key, value in held.items()]
            continue
        plain[about.name] = [one(value) for value in got] if repeated else one(got)
    return plain


def given(plain):
    """Without defaults, which Google's protobuf does not tell from nothing, and with maps as lists of entries."""
    if isinstance(plain, dict):
        return {
            key: given(value) for key, value in plain.items() if value not in (0, False, "", [], "KIND_AUTO", "REJECT")
        }
    return [given(value) for value in plain] if isinstance(plain, list) else plain


@pytest.mark.parametrize("name", list(CONFIGS))
def test_configurations_are_read_as_google_reads_them(name):
    text_format = pytest.importorskip("google.protobuf.text_format")
    theirs = text_format.Parse(CONFIGS[name], described()())
    ours = checked(parse(CONFIGS[name], name), "ModelConfig")
    assert given(ours) == given(as_google(theirs, "ModelConfig"))


def test_strings_are_read_as_google_reads_them():
    text_format = pytest.importorskip("google.protobuf.text_format")
    texts = [r'"a\tb\\\"\'\a\b\f\n\r\v"', r"'\101\60\x41\x4a' " + '"\\u00e9\\U0001F600é"', "''"]
    for text in texts:
        theirs = text_format.Parse(f"name: {text}", described()()).name
        assert checked(parse(f"name: {text}", "f"), "ModelConfig")["name"] == theirs


REFUSED = [
    ('name "x"', 'f:1:6: must be `:` or `{`, got `"x"`'),
    ('name: "x\n"', "f:1:7: must be a text that ends on its line"),
    ("name: x", "f:1:7: `name` must be a text in quotes, got `x`"),
    ("name: 1", "f:1:7: `name` must be a text in quotes, got `1`"),
    ('name: "a" name: "b"', "f:1:1: `name` must have one value, got several. Keep one."),
    ('name: [ "a" ]', "f:1:1: `name` must have one value"),
    (r'name: "\xff"', "f:1:7: must be UTF-8 text"),
    (r'name: "\q"', r"f:1:7: must be a text without `\q`"),
    ("\n\n max_batchsize: 8", "f:3:2: `max_batchsize` is no field of ModelConfig. Did you mean `max_batch_size`?"),
    ("max_batch_size: 2147483648", "f:1:17: `max_batch_size` must be a whole number (int32), got `2147483648`"),
    ("max_batch_size: 1.5", "f:1:17: `max_batch_size` must be a whole number (int32), got `1.5`"),
    ("max_batch_size: 08", "f:1:17: must be a number, got `08`"),
    ("max_batch_size: 8x", "f:1:17: must be a number, got `8x`"),
    ("max_batch_size 8", "f:1:16: must be `:` or `{`, got `8`"),
    ("max_batch_size: ", "f:1:17: must be a value, got the end of the file"),
    ("dynamic_batching { max_queue_delay_microseconds: -1 }", "must be a whole number (uint64), got `-1`"),
    ("dynamic_batching { preferred_batch_size: [ 4, ] }", "f:1:47: must be a value, got `]`"),
    ("dynamic_batching { preferred_batch_size: [ 4 8 ] }", "f:1:46: must be `,` or `]`, got `8`"),
    ("dynamic_batching {", "f:1:19: must be a field or `}`, got the end of the file"),
    ("dynamic_batching { >", "f:1:20: must be a field or `}`, got `>`"),
    ("dynamic_batching: true", "f:1:19: `dynamic_batching` must be a message in `{}`, got `true`"),
    ("instance_group { kind: KIND_TPU }", "must be one of KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL, got `KIND_TPU`"),
    ("instance_group { passive: maybe }", "f:1:27: `passive` must be `true` or `false`, got `maybe`"),
    ("[a.b.c]: 1", "f:1:1: must be a field, got `[`"),
    ("}", "f:1:1: must be a field, got `}`"),
    ("a: @", "f:1:4: must be a field or a value, got `@`"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[text[:30] for text, _ in REFUSED])
def test_what_is_no_configuration_is_refused_in_one_line_as_google_refuses_it(text, said):
    with pytest.raises(InputError) as error:
        checked(parse(text, "f"), "ModelConfig")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    text_format = pytest.importorskip("google.protobuf.text_format")
    with pytest.raises((text_format.ParseError, DeprecationWarning)):  # the latter: an escape that Python drops
        text_format.Parse(text, described()())


def test_what_only_the_specification_allows():
    """Python's protobuf keeps the backslash of `\\?` and takes no blank after a minus."""
    assert checked(parse(r'name: "\?"', "f"), "ModelConfig") == {"name": "?"}
    assert checked(parse("max_batch_size: - # minus\n 1", "f"), "ModelConfig") == {"max_batch_size": -1}


def test_nesting_ends_somewhere():
    with pytest.raises(InputError, match="must be nested at most 50 deep"):
        parse("a {" * 100_000, "f")


def test_fields_are_those_of_triton():
    """Every field of every message that is read, with its type."""
    found = {}
    todo = [described().DESCRIPTOR]
    while todo:
        message = todo.pop()
        of_accelerator = message.containing_type is not None and message.containing_type.name == "Accelerator"
        name = "AcceleratorParameter" if of_accelerator else message.name
        if name in FIELDS:
            found[name] = {field.name for field in message.fields}
            todo += [field.message_type for field in message.fields if field.message_type]
    assert {name: set(fields) for name, fields in FIELDS.items()} == found
    config = described().DESCRIPTOR.fields_by_name
    cpp = {5: "int32", 3: "int64", 4: "uint64", 13: "uint32", 8: "bool", 9: "string"}
    for name, wanted in FIELDS["ModelConfig"].items():
        kind = cpp.get(config[name].type)
        assert wanted in (kind, [kind]) or kind is None
        assert kind not in INTEGERS or "message" not in wanted


# The repository


def test_a_repository_is_read(tmp_path):
    found = read_repository(repository(tmp_path, **CONFIGS, cpu="instance_group { kind: KIND_CPU }"))
    by_name = {model.name: model for model in found.models}
    assert set(by_name) == {"resnet50", "bert", "asr"}
    resnet = by_name["resnet50"].config
    assert (resnet.max_batch_size, resnet.preferred_batch_sizes, resnet.max_queue_delay_s) == (8, (4, 8), 0.005)
    assert [str(group) for group in resnet.groups] == ["2 on each of GPU 0, 1"]
    assert resnet.timeout_s == 0.1
    assert by_name["resnet50"].weights_bytes == 1_000_000
    assert by_name["bert"].config.max_batch_size == 16
    assert [str(group) for group in by_name["bert"].config.groups] == ["1 on every GPU"]
    assert [line.partition(":")[0] for line in found.left_out] == ["cpu"]
    assert [(one.name, one.steps) for one in found.ensembles] == [("pipe", ("resnet50", "bert"))]
    assert any("rate limiters are not simulated: bert" in line for line in found.warnings)
    assert any("sequence batching" in line and "asr" in line for line in found.warnings)


def test_the_newest_version_that_is_served_is_weighed(tmp_path):
    repository(tmp_path, bert=BERT)  # serves 1 and 3
    for version, size in (("2", 7000), ("3", 5000), ("04", 9000), ("x", 9000)):
        (tmp_path / "bert" / version).mkdir()
        (tmp_path / "bert" / version / "model.pt").write_bytes(bytes(size))
    (tmp_path / "bert" / "3" / "note.txt").write_text("small files are no models")
    (served,) = read_repository(tmp_path).models
    assert (served.version, served.weights_bytes) == (3, 5000)


@pytest.mark.parametrize("name", ["_x", "my model", "x" * 80, "...", "a/b"])
def test_names_become_names_of_a_scenario(name):
    assert read_name(scenario_name(name))


def read_name(name):
    from planner.imports.serving.from_triton import NAME

    return NAME.fullmatch(name)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({}, "holds no model that GPUs serve. Each model is a directory with a config.pbtxt."),
        ({"pipe": ENSEMBLE}, "holds no model that GPUs serve. Left out: pipe: is an ensemble"),
        ({"bert": 'name: "other"'}, "config.pbtxt: `name` must be `bert`, as its directory is called, got `other`"),
        ({"_a": "", "a": ""}, "a: several models would get this name. Rename one."),
    ],
)
def test_a_repository_that_cannot_be_imported(tmp_path, made, said):
    with pytest.raises(InputError) as error:
        read_repository(repository(tmp_path, **made))
    assert said in str(error.value)
    with pytest.raises(InputError, match="is no directory"):
        read_repository(tmp_path / "none")


def test_the_directory_above_a_repository_names_what_is_in_it(tmp_path):
    repository(tmp_path / "b", bert=BERT)
    repository(tmp_path / "a", bert=BERT)
    with pytest.raises(InputError) as error:
        read_repository(tmp_path)
    wanted = f"Name the repository in it: {tmp_path / 'a'} or {tmp_path / 'b'}."
    assert str(error.value) == f"{tmp_path}: holds no model that GPUs serve. {wanted}"


def test_of_many_that_are_left_out_three_are_named(tmp_path):
    for name in "abcde":
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=r"c: has no config\.pbtxt.* And 2 more\.$"):
        read_repository(tmp_path)


def test_a_single_model_is_no_repository(tmp_path):
    with pytest.raises(InputError, match=r"is one model\. Name the directory above it\."):
        read_repository(repository(tmp_path, bert=BERT) / "bert")


def test_a_file_that_is_no_text_is_named(tmp_path):
    repository(tmp_path, bert="")
    (tmp_path / "bert" / "config.pbtxt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"config\.pbtxt: is not UTF-8.*Mend the file\."):
        read_config(tmp_path / "bert" / "config.pbtxt")


# The command


def test_a_scenario_is_written_that_loads(tmp_path):
    repository(tmp_path / "repo", **CONFIGS)
    out = tmp_path / "s.yaml"
    code, said, _ = run(
        "from-triton", tmp_path / "repo", "-o", out, "--rate", "10 rps", "--rate", "resnet50=50 rps", "--slo", "200 ms"
    )
    assert code == 0
    assert "pipe: is an ensemble" in said
    assert "TODO" not in said + out.read_text()
    scenario = load_scenario(out).scenario
    assert {m.name: m.max_queue_delay for m in scenario.models} == {"asr": 0, "bert": 0, "resnet50": 0.005}
    assert {s.model: s.poisson for s in scenario.streams} == {"asr": 10, "bert": 10, "resnet50": 50}
    assert {m.slo.latency for m in scenario.models} == {0.2}
    text = out.read_text()
    assert "batches up to 8 (preferred 4, 8), input 3x224x224 fp32, 2 on each of GPU 0, 1" in text
    assert "about 1.0 MB, the size of version 1 on disk (evidence: assumed)" in text


def test_a_model_of_an_unknown_name_is_its_file(tmp_path):
    """Its input is that of the configuration, without the batch where that has one of its own."""
    of_one = RESNET.replace("resnet50", "mine").replace("max_batch_size: 8", "max_batch_size: 0")
    unbatched = of_one.replace("[ 3, 224, 224 ]", "[ 1, 3, 320, 320 ]").replace('name: "mine"', 'name: "theirs"')
    of_eight = RESNET.replace('name: "resnet50"', 'name: "mine"')
    found = read_repository(repository(tmp_path / "repo", mine=of_eight, theirs=unbatched))
    assert {model.name: model.input for model in found.models} == {"mine": (3, 224, 224), "theirs": (3, 320, 320)}
    out = tmp_path / "s.yaml"
    assert run("from-triton", tmp_path / "repo", "-o", out, "--rate", "10 rps", "--slo", "200 ms")[0] == 0
    models = {m.name: m for m in load_scenario(out).scenario.models}
    assert models["mine"].model == f"onnx:{tmp_path / 'repo' / 'mine' / '1' / 'model.onnx'}"
    assert models["mine"].input == (3, 224, 224)


@pytest.mark.parametrize(
    ("config", "runtime", "precision"),
    [
        ('platform: "tensorrt_plan"', "tensorrt", TODO),
        ('backend: "tensorrt" parameters { key: "precision" value { string_value: "int8" } }', "tensorrt", "int8"),
        ('platform: "onnxruntime_onnx"', "onnxruntime", None),
        (RESNET, "tensorrt", "fp16"),  # by its accelerator
        ('platform: "pytorch_libtorch"', "pytorch", None),
        ('platform: "tensorflow_savedmodel"', "tensorflow", None),
        ('backend: "identity"', None, None),
    ],
)
def test_a_backend_is_the_software_that_a_plan_counts(tmp_path, config, runtime, precision):
    repository(tmp_path / "repo", resnet50=config)
    out = tmp_path / "s.yaml"
    assert run("from-triton", tmp_path / "repo", "-o", out, "--rate", "10 rps", "--slo", "200 ms")[0] == 0
    (model,) = yaml.safe_load(out.read_text())["models"]
    assert (model.get("runtime"), model.get("precision")) == (runtime, precision)


@pytest.mark.parametrize(
    ("file", "backend", "runtime"),
    [
        ("model.plan", "tensorrt", "tensorrt"),
        ("model.onnx", "onnxruntime", "onnxruntime"),
        ("model.pt", "pytorch", "pytorch"),
        ("notes.txt", "", ""),
    ],
)
def test_where_no_backend_is_named_the_file_says_it(tmp_path, file, backend, runtime):
    (tmp_path / "resnet50" / "1").mkdir(parents=True)
    (tmp_path / "resnet50" / "1" / file).write_bytes(bytes(5000))
    (tmp_path / "resnet50" / "config.pbtxt").write_text("max_batch_size: 8")
    (model,) = read_repository(tmp_path).models
    assert (model.config.backend, model.runtime) == (backend, runtime)


@pytest.mark.parametrize("profile", ["resnet50", "bert-base-uncased"])
def test_an_exported_model_that_is_predicted_is_known(tmp_path, profile):
    """Nobody measured it at that precision; its layers tell."""
    noted = {"profile": profile, "precision": "fp16", "runtime": "tensorrt"}
    config = "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }} ' for key, value in noted.items()
    )
    repository(tmp_path / "repo", mine=config)
    out = tmp_path / "s.yaml"
    asked = ("--rate", "10 rps", "--slo", "200 ms")
    code, said, _ = run("from-triton", tmp_path / "repo", "-o", out, *asked)
    assert code == 0
    assert f"Next: planner plan {out}" in said
    (model,) = yaml.safe_load(out.read_text())["models"]
    assert {key: model[key] for key in noted} == noted


@pytest.mark.parametrize(
    ("dims", "told"),
    [("3, 512, 512", True), ("3, 224, 224", False), ("224, 224, 3", False), ("3, -1, -1", False)],
)
def test_an_input_that_a_plan_does_not_count_is_told(tmp_path, dims, told):
    repository(tmp_path / "repo", resnet50=RESNET.replace("3, 224, 224", dims))
    _, said, _ = run("from-triton", tmp_path / "repo", "-o", tmp_path / "s.yaml")
    assert ("takes 3x512x512, a plan counts resnet50 at 3x224x224" in " ".join(said.split())) == told


@pytest.mark.parametrize("name", ["bert-base", "bert_large"])
@pytest.mark.parametrize(("tokens", "told"), [(384, True), (128, False)])
def test_so_are_tokens_whose_mask_is_as_long(tmp_path, name, tokens, told):
    inputs = [f'{{ name: "{part}" data_type: TYPE_INT64 dims: [ {tokens} ] }}' for part in ("ids", "mask")]
    config = f'name: "{name}"\nbackend: "onnxruntime"\nmax_batch_size: 8\ninput [ {", ".join(inputs)} ]\n'
    repository(tmp_path / "repo", **{name: config})
    _, said, _ = run("from-triton", tmp_path / "repo", "-o", tmp_path / "s.yaml")
    source = {"bert-base": "hf:bert-base-uncased", "bert_large": "hf:bert-large-uncased"}[name]
    remedy = f"a plan counts {name} at 128 tokens; write `model: {source}` with `input: [384]`"
    assert (f"takes 384 tokens, {remedy}" in " ".join(said.split())) == told


def test_what_generates_tokens_is_left_out(tmp_path):
    found = read_repository(repository(tmp_path, resnet50=RESNET, chat='backend: "vllm"'))
    assert [model.name for model in found.models] == ["resnet50"]
    assert found.left_out == ("chat: generates tokens, which this import does not read",)


def test_what_nobody_said_is_left_to_fill_in_line_by_line(tmp_path):
    repository(tmp_path / "repo", resnet50=RESNET)
    out = tmp_path / "s.yaml"
    code, said, _ = run("from-triton", tmp_path / "repo", "-o", out)
    assert code == 0
    assert "Still to be written where TODO stands: the rate of resnet50, the latency of resnet50" in " ".join(
        said.split()
    )
    with pytest.raises(ScenarioError) as error:
        load_scenario(out)
    latency, rate = error.value.problems
    assert "models[0].slo.latency: must be a duration, got `TODO`" in latency
    assert "streams[0].poisson: must be a rate, got `TODO`" in rate
    load_scenario(out, ["models[0].slo.latency=100ms", "streams[0].poisson=5 rps"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rate", "fast"), "--rate fast: must be a rate, got `fast`. Write e.g. `30 fps` or `20 rps`."),
        (("--rate", "resnet=1"), "--rate resnet=1: no model is called `resnet`. Did you mean `resnet50`?"),
        (("--slo", "0"), "--slo 0: must be above 0."),
        (("--slo", "5 ms"), "--slo resnet50=5 ms: must be above 5 ms, which a batch may wait by its config.pbtxt."),
    ],
)
def test_options_that_cannot_be(tmp_path, words, said):
    from simulator.errors import InputError

    repository(tmp_path / "repo", resnet50=RESNET)
    with pytest.raises(InputError) as error:
        run("from-triton", tmp_path / "repo", "-o", tmp_path / "s.yaml", *words)
    assert said in str(error.value)
    assert not (tmp_path / "s.yaml").exists()


def test_no_file_is_written_over(tmp_path):
    from planner.io.store import StoreError

    out = tmp_path / "s.yaml"
    out.write_text("mine")
    with pytest.raises(StoreError, match=r"exists already\. Name another file\."):
        run("from-triton", repository(tmp_path / "repo", resnet50=RESNET), "-o", out)
    assert out.read_text() == "mine"


def test_an_exported_plan_comes_back_with_the_same_batching(tmp_path):
    from dataclasses import replace

    from support.answers import BEST, GPUS, PLAN, VGG, YOLO

    from planner.exports.fleet import machines
    from planner.exports.triton import repository as exported

    devices = tuple(replace(c, id=f"NC6s_v3-{i}:0", host=f"NC6s_v3-{i}") for i, c in enumerate(GPUS, 1))
    ids = {old.id: new.id for old, new in zip(GPUS, devices, strict=True)}

    def moved(model):
        replicas = tuple(replace(r, gpus=tuple(ids[g] for g in r.gpus)) for r in model.replicas)
        return replace(model, replicas=replicas, gpus=tuple(ids[g] for g in model.gpus), max_queue_delay_s=0.003)

    models = (moved(VGG), moved(YOLO))
    plan = replace(PLAN, recommendation=replace(BEST, models=models, gpus=devices))
    for number, machine in enumerate(machines(plan.recommendation)):
        folder = tmp_path / str(number)
        for path, text in exported(plan, machine).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        back = {model.name: model.config for model in read_repository(folder).models}
        assert set(back) == {served.model.name for served in machine.served}
        for served in machine.served:
            config = back[served.model.name]
            assert config.max_batch_size == served.batch_size
            assert config.preferred_batch_sizes == (served.batch_size,)
            assert config.max_queue_delay_s == served.model.max_queue_delay_s
            assert config.timeout_s == served.model.slo_s
            assert sum(g.count * len(g.gpus) for g in config.groups) == len(served.devices)


def test_an_exported_plan_can_be_imported_and_planned_again(tmp_path):
    """What the exported files say of profiles is enough for the next plan; without it, that is said at once."""
    plan, deployed, again = tmp_path / "p.json", tmp_path / "deployed", tmp_path / "again.yaml"
    rates = ("--set", "streams[visitors].gamma.rate=1 rps", "--set", "streams[recorded].trace.rate=20 rps")
    on_t4 = ("--set", "buy.gpus=[T4]")
    assert run("plan", SCENARIOS / "trace.yaml", *rates, *on_t4, "-o", plan, "-q")[0] == 0
    assert run("export", plan, "--to", "triton", "-o", deployed)[0] == 0
    (machine,) = (path for path in deployed.iterdir() if path.is_dir())
    asked = ("--rate", "10 rps", "--slo", "200 ms")
    code, said, _ = run("from-triton", machine, "-o", again, *asked)
    assert code == 0
    assert f"Next: planner plan {again}" in said
    models = {m.name: (m.profile, m.precision) for m in load_scenario(again).scenario.models}
    assert models == {"search": ("nvidia_resnext101_32x4d", "fp32"), "tagging": ("nvidia_resnet50", "fp32")}
    assert run("plan", again, *on_t4, "-o", tmp_path / "q.json", "-q")[0] == 0
    config = machine / "search" / "config.pbtxt"
    config.write_text(config.read_text().replace("nvidia_resnext101_32x4d", "mine"))
    code, said, _ = run("from-triton", machine, "-o", tmp_path / "mine.yaml", *asked)
    assert code == 0
    assert "It is not known what search may be: before `planner plan` write it as `model:`" in " ".join(said.split())
    assert "Next: planner plan" not in said
    assert "profile: mine # not known here" in (tmp_path / "mine.yaml").read_text()


def test_an_ensembles_rate_is_that_of_its_steps(tmp_path):
    for name, text in (("resnet50", 'backend: "onnxruntime"'), ("pipe", ENSEMBLE), ("twin", ENSEMBLE)):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(text)
    repository = read_repository(tmp_path)
    step = repository.ensembles[0].steps[0]
    times = repository.ensembles[0].steps.count(step)
    found = wishes(repository, ["1 rps", "pipe=10 rps", "twin=5 rps"], []).rates
    assert found[step] == f"{15 * times} rps"
    assert wishes(repository, [f"{step}=7 rps", "pipe=10 rps"], []).rates[step] == f"{7 + 10 * times} rps"
    assert wishes(repository, ["pipe=1234567.8 rps"], []).rates[step] == f"{1234567.8 * times:.1f} rps"
    with pytest.raises(InputError):
        wishes(repository, ["pipe=fast"], [])


def step(model):
    return f'step [{{ model_name: "{model}" model_version: -1 }}]'


def ensemble(*models):
    return f'platform: "ensemble" ensemble_scheduling {{ {" ".join(map(step, models))} }}'


def test_an_ensemble_in_an_ensemble_hands_its_rate_on(tmp_path):
    texts = {"a": 'backend: "onnxruntime"', "inner": ensemble("a"), "outer": ensemble("inner", "a", "inner")}
    texts |= {"ring": ensemble("knot"), "knot": ensemble("ring")}
    for name, text in texts.items():
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(text)
    repository = read_repository(tmp_path)
    assert wishes(repository, ["outer=10 rps"], []).rates == {"a": "30 rps"}
    assert wishes(repository, ["outer=10 rps", "inner=5 rps", "a=1 rps"], []).rates == {"a": "36 rps"}
    with pytest.raises(InputError):
        wishes(repository, ["ring=1 rps"], [])
