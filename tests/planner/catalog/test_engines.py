"""Engines for video: rates as published, by engine and codec, and streams that were seen to run end to end."""

import csv

import pytest
from support.paths import PUBLIC

from planner.catalog.catalog import load_catalog
from planner.catalog.engines import SURFACES, codes, engine_rate, engine_rates, stream_bytes
from planner.model.choices import Codec, Preset
from planner.model.parts.coding import Coding
from simulator.world.profile import Evidence

GPUS = load_catalog().gpus
SHARED = PUBLIC / "published" / "video-decode.csv"
ENGINES = {
    "T4": ("Turing", 2),
    "A10": ("Ampere", 2),
    "L4": ("Ada", 4),
    "RTX-PRO-6000-BSE": ("Blackwell", 4),
    "Jetson-Thor-T5000": ("Jetson Thor", 2),
}
"""Five GPUs: whose engine each has, and how many of them."""
CODECS = {
    "H.264": Codec.H264,
    "HEVC": Codec.HEVC,
    "HEVC Main10": Codec.HEVC_10BIT,
    "VP9": Codec.VP9,
    "VP9 10 bit": Codec.VP9_10BIT,
    "AV1": Codec.AV1,
}
# Frames a second of one engine at 1920x1080: NVIDIA Video Codec SDK 13.0, NVDEC application note.
PUBLISHED = [
    ("T4", Codec.H264, 771),
    ("A10", Codec.HEVC, 1415),
    ("L4", Codec.AV1, 1018),
    ("RTX-PRO-6000-BSE", Codec.H264, 2172),
    ("Jetson-Thor-T5000", Codec.VP9_10BIT, 1016),
]
END_TO_END = [
    ("Jetson-Orin-Nano", Codec.HEVC, 13),
    ("Jetson-Orin-Nano", Codec.H264, 8),
    ("Jetson-Orin-NX-16GB", Codec.HEVC, 16),
    ("Jetson-Orin-NX-16GB", Codec.H264, 13),
    ("H100", Codec.HEVC, 229),
    ("H100", Codec.H264, 148),
    ("L40S", Codec.H264, 15),
]
"""Streams of 1080p at 30 fps that ran through detection, tracking and classification: NVIDIA's DeepStream and VSS."""


def decode_fps(gpu, codec, width=1920, height=1080):
    return engine_rate(gpu, Coding(kind="decode", codec=codec, width=width, height=height))


def encode_fps(name, codec=Codec.H264, preset=Preset.P4, **said):
    return engine_rate(GPUS[name], Coding(kind="encode", codec=codec, preset=preset, **said))


@pytest.mark.parametrize(("gpu", "codec", "fps"), PUBLISHED)
def test_rates_are_those_published(gpu, codec, fps):
    rate = decode_fps(GPUS[gpu], codec)
    assert (rate.fps_per_engine, rate.engines, rate.evidence) == (fps, ENGINES[gpu][1], Evidence.PUBLISHED)
    assert rate.fps == rate.engines * fps


@pytest.mark.skipif(not SHARED.exists(), reason="the published table is not here")
@pytest.mark.parametrize("gpu", ENGINES)
def test_decoding_limits_agree_with_the_published_table(gpu):
    engine, count = ENGINES[gpu]
    with SHARED.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["gpu_or_architecture"] == engine]
    assert len(rows) >= 5
    for row in rows:
        rate = decode_fps(GPUS[gpu], CODECS[row["codec"]])
        assert rate.fps == count * float(row["value"])
        assert rate.streams(30) == pytest.approx(count * float(row["streams_1080p30"]), abs=1)
    assert len(list(engine_rates(GPUS[gpu], "decode"))) == len(rows)


def test_every_kind_with_engines_is_known_to_decode_and_encode_something():
    """With or without a rate: else a plan says that it cannot. A K80 is older than NVIDIA's tables."""
    unknown = {
        (name, kind)
        for name, gpu in GPUS.items()
        for kind in ("decode", "encode")
        if (gpu.decoders if kind == "decode" else gpu.encoders)
        and not all(codes(gpu, Coding(kind=kind, codec=codec)) for codec in (Codec.H264, Codec.HEVC))
    }
    assert unknown == {("K80", "decode"), ("K80", "encode")}


def test_an_orin_decodes_av1_at_a_rate_that_somebody_states():
    """Its engine does, says Jetson Linux; a Xavier's does not. Nobody published how fast."""
    orin = GPUS["Jetson-AGX-Orin-64GB"]
    asked = Coding(kind="decode", codec=Codec.AV1)
    assert codes(orin, asked)
    assert not codes(GPUS["Jetson-AGX-Xavier"], asked)
    assert engine_rate(orin, asked) is None
    stated = engine_rate(orin, Coding(kind="decode", codec=Codec.AV1, engine_fps=150.0))
    assert stated is not None
    assert (stated.fps, stated.evidence) == (300.0, Evidence.ASSUMED)


def test_a_t4_decodes_51_streams_and_no_av1():
    assert decode_fps(GPUS["T4"], Codec.H264).streams(30) == 51
    assert decode_fps(GPUS["T4"], Codec.AV1) is None


@pytest.mark.parametrize(("gpu", "codec", "streams"), END_TO_END)
def test_what_ran_end_to_end_was_decoded(gpu, codec, streams):
    assert decode_fps(GPUS[gpu], codec).streams(30) >= streams


def test_module_data_sheets_say_how_many_streams_a_jetson_decodes():
    # Whole modules, HEVC, 1080p at 30 fps.
    said = {"Jetson-AGX-Orin-64GB": 22, "Jetson-AGX-Orin-32GB": 18, "Jetson-AGX-Xavier": 52}
    assert {gpu: decode_fps(GPUS[gpu], Codec.HEVC).streams(30) for gpu in said} == said


def test_what_nobody_published_of_a_gpu_is_assumed():
    assert decode_fps(GPUS["A100-80GB"], Codec.HEVC).evidence is Evidence.ASSUMED  # by Turing's, at another clock
    assert decode_fps(GPUS["RTX3060"], Codec.HEVC).evidence is Evidence.ASSUMED  # its engines are recalled
    assert decode_fps(GPUS["MI300X"], Codec.HEVC) is None
    assert decode_fps(GPUS["CPU-Ice-Lake-4c"], Codec.H264) is None


def test_slices_have_their_own_engines_or_none():
    def engines(name):
        return decode_fps(GPUS[name], Codec.H264).engines

    assert (engines("A100-80GB-MIG-1g.10gb"), engines("A100-80GB-MIG-3g.40gb"), engines("A100-80GB")) == (0, 2, 5)
    assert decode_fps(GPUS["A100-80GB-MIG-1g.10gb"], Codec.H264).streams(1) == 0


def test_other_resolutions_count_by_their_pixels():
    full, quarter = decode_fps(GPUS["L4"], Codec.H264), decode_fps(GPUS["L4"], Codec.H264, 3840, 2160)
    assert quarter.fps == pytest.approx(full.fps / 4)
    assert (full.evidence, quarter.evidence) == (Evidence.PUBLISHED, Evidence.EXTRAPOLATED)


def test_a_stream_holds_the_frames_that_a_decoder_asks_for_beside_what_no_resolution_changes():
    """As published: 500 MB at 1920x1080 on an A100 and 520 MiB at 1280x720 there, so that few of these are frames."""

    def held(width=1920, height=1080, codec=Codec.H264, kind="decode"):
        return stream_bytes(Coding(kind=kind, codec=codec, width=width, height=height))

    assert held() == 500_000_000
    larger, frame = held(3840, 2160), 3840 * 2160 * 1.5
    assert larger - held() == pytest.approx(SURFACES * (frame - frame / 4), rel=1e-6)
    assert held(3840, 2160, Codec.HEVC_10BIT) - larger == pytest.approx(SURFACES * frame, rel=1e-6)
    assert held(1280, 720) == pytest.approx(520 * 2**20, rel=0.2)  # band: two programs on one GPU
    # An ffmpeg that decoded and encoded 960x540 held 387 MB in all, and a tenth for what stands in no whole megabytes.
    assert 0.8 * 387e6 <= held(960, 540, kind="encode") <= 1.1 * 387e6


def test_counting_pixels_errs_by_half_at_most_where_somebody_measured():
    # An RTX 4090 was seen to decode 543.4 frames/s of HEVC at 2688x1520, 35 % less than its pixels say.
    counted = decode_fps(GPUS["RTX4090"], Codec.HEVC, 2688, 1520).fps
    assert 543.4 <= counted <= 1.6 * 543.4


BOTH = (Codec.H264, Codec.HEVC)
ENCODED = [
    ("T4", Codec.H264, "p1", 833, 1),
    ("T4", Codec.HEVC, "p3", 463, 1),
    ("A10", Codec.H264, "p7", 213, 1),
    ("L4", Codec.HEVC, "p5", 343, 2),
    ("RTX-PRO-6000-BSE", Codec.H264, "p5", 317, 4),
    ("Jetson-Thor-T5000", Codec.HEVC, "p7", 148, 2),
]
"""Frames a second of one engine at 1920x1080, and engines: NVIDIA Video Codec SDK 13.0, NVENC application note, of two
tunings the slower."""
# The rows of Jetson Thor as NVIDIA quotes them, by preset: H.264 at low latency and high quality, HEVC likewise.
THOR = {
    "p1": (724, 713, 860, 850),
    "p3": (529, 527, 402, 579),
    "p5": (236, 230, 279, 336),
    "p7": (219, 202, 279, 148),
}


@pytest.mark.parametrize(("gpu", "codec", "preset", "fps", "engines"), ENCODED)
def test_encoders_are_as_fast_as_published(gpu, codec, preset, fps, engines):
    rate = encode_fps(gpu, codec, Preset(preset))
    assert (rate.fps_per_engine, rate.engines, rate.preset) == (fps, engines, preset)
    assert rate.evidence is Evidence.PUBLISHED
    assert rate.streams(30) == int(fps * engines / 30)


@pytest.mark.parametrize("preset", THOR)
def test_every_published_preset_of_a_jetson_thor_is_known(preset):
    h264, hevc = (encode_fps("Jetson-Thor-T5000", codec, Preset(preset)).fps_per_engine for codec in BOTH)
    assert (h264, hevc) == (min(THOR[preset][:2]), min(THOR[preset][2:]))


def test_a_preset_that_nobody_published_counts_as_the_next_slower_one():
    known = {preset.value: encode_fps("T4", preset=preset).preset for preset in Preset}
    assert known == {"p1": "p1", "p2": "p3", "p3": "p3", "p4": "p5", "p5": "p5", "p6": "p7", "p7": "p7"}
    rates = [encode_fps("L4", codec, preset).fps for codec in BOTH for preset in Preset]
    assert rates == sorted(rates[:7], reverse=True) + sorted(rates[7:], reverse=True)


@pytest.mark.parametrize(
    "gpu", ["A100-80GB", "H100", "H200", "B200", "A30", "Jetson-Orin-Nano", "A100-40GB-MIG-3g.20gb"]
)
def test_gpus_without_an_encoder_encode_nothing(gpu):
    assert GPUS[gpu].encoders == 0
    assert not list(engine_rates(GPUS[gpu], "encode"))


def test_module_data_sheets_say_how_many_streams_a_jetson_encodes():
    # Whole modules, HEVC, 1080p at 30 fps; at which preset they do not say.
    said = {"Jetson-AGX-Orin-64GB": 16, "Jetson-AGX-Orin-32GB": 12, "Jetson-AGX-Xavier": 32, "Jetson-Orin-NX-16GB": 12}
    rates = {gpu: encode_fps(gpu, Codec.HEVC) for gpu in said}
    assert {gpu: rate.streams(30) for gpu, rate in rates.items()} == said
    assert {(rate.preset, rate.evidence) for rate in rates.values()} == {("", Evidence.ASSUMED)}


def test_what_nobody_published_of_encoding_may_be_stated_where_there_is_an_engine():
    """AV1 is encoded by Ada and later, and no rate of it is published; a T4 does not encode it at all."""
    assert encode_fps("L4", Codec.AV1) is None
    assert encode_fps("L4", Codec.AV1, engine_fps=400.0).fps == 800
    assert encode_fps("L4", Codec.AV1, engine_fps=400.0, width=3840, height=2160).fps == 800, "of just these frames"
    assert encode_fps("T4", Codec.AV1, engine_fps=400.0) is None
    assert encode_fps("MI300X", Codec.H264, engine_fps=400.0) is None


def test_slices_encode_by_their_share_of_the_engines():
    """NVIDIA's MIG user guide gives a slice of an RTX PRO 6000 as many encoders as decoders."""
    shares = [encode_fps(f"RTX-PRO-6000-BSE-MIG-{one}").engines for one in ("1g.24gb", "2g.48gb", "4g.96gb")]
    assert shares == [1, 2, 4]
