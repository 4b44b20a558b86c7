"""The catalog: every figure as published, strict files, what a user's own files replace, and what is on offer."""

import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import PUBLIC

from benchmarks.making.prices import collect, day
from calibrate.io.tables import csv_text, table
from calibrate.published import names as identity
from planner.catalog.catalog import CatalogError, load_catalog
from planner.catalog.files import SHIPPED, SaleStatus
from planner.catalog.hosts import DATA
from planner.catalog.offers import Offer, offers, own_left_out
from planner.catalog.price_table import COLUMNS
from planner.catalog.sold import stale, usual_days
from planner.model.candidate import OnGpu
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.plan import Bottleneck
from planner.model.statement import Code, Statement
from planner.show.text.listings.prices import price_list
from planner.units.writing import Screen
from planner.words.candidates import subject_name
from planner.words.statements import rejection_remedy, warning_line
from simulator.near import known_ones
from simulator.world.hardware import GPU

CATALOG = load_catalog()
PRICED = {(instance.provider, instance.name): instance for instance in reversed(CATALOG.instances)}

# Vendors' data sheets, dense rates: memory (GB), its bandwidth (GB/s), fp16 on matrix units and fp32 (TFLOP/s), power
# limit (W), PCIe and NVLink (GB/s, one direction), compute capability.
GPUS: dict[str, tuple[float, float, float | None, float, float, float, float | None, str]] = {
    "K80": (12, 240, None, 4.1, 150, 16, None, "3.7"),
    "P100": (16, 732, 18.7, 9.3, 250, 16, None, "6.0"),
    "P100-SXM2": (16, 732, 21.2, 10.6, 300, 16, 80, "6.0"),
    "V100": (16, 900, 125, 15.7, 300, 16, 150, "7.0"),
    "T4": (16, 320, 65, 8.1, 70, 16, None, "7.5"),
    "A10G": (24, 600, 70, 31.5, 300, 32, None, "8.6"),
    "L4": (24, 300, 121, 30.3, 72, 32, None, "8.9"),
    "L40S": (48, 864, 362, 91.6, 350, 32, None, "8.9"),
    "A100-40GB": (40, 1555, 312, 19.5, 400, 32, 300, "8.0"),
    "A100-80GB": (80, 2039, 312, 19.5, 400, 32, 300, "8.0"),
    "H100-PCIe": (80, 2000, 756, 51, 350, 64, None, "9.0"),
    "H100": (80, 3350, 989, 67, 700, 64, 450, "9.0"),
    "H200": (141, 4800, 989, 67, 700, 64, 450, "9.0"),
    "B200": (180, 7700, 2250, 74.5, 1000, 128, 900, "10.0"),
    "RTX3090": (24, 936, 71, 35.6, 350, 32, None, "8.6"),
    "RTX4090": (24, 1008, 165, 82.6, 450, 32, None, "8.9"),
    "GTX580": (3, 192, None, 1.58, 244, 8, None, "2.0"),
}

# Public price lists: AWS us-east-1 of 2026-07-20, Azure of 2026-06-18; on demand, USD per hour of the whole instance.
# Spot: range over zones in a public catalog of 2025-26.
PRICES: dict[tuple[str, str, str], tuple[str, int, float, tuple[float, float] | None, str]] = {
    ("aws", "us-east-1", "p2.xlarge"): ("K80", 1, 0.900, None, "retired"),
    ("aws", "us-east-1", "p2.8xlarge"): ("K80", 8, 7.200, None, "retired"),
    ("aws", "us-east-1", "p2.16xlarge"): ("K80", 16, 14.400, None, "retired"),
    ("aws", "us-east-1", "p3.2xlarge"): ("V100", 1, 3.060, (0.37, 0.43), "retired"),
    ("aws", "us-east-1", "p3.8xlarge"): ("V100", 4, 12.240, (1.41, 1.51), "retired"),
    ("aws", "us-east-1", "p3.16xlarge"): ("V100", 8, 24.480, (2.67, 2.72), "retired"),
    ("aws", "us-east-1", "g4dn.xlarge"): ("T4", 1, 0.526, (0.2, 0.2158), "active"),
    ("aws", "us-east-1", "g4dn.2xlarge"): ("T4", 1, 0.752, None, "active"),
    ("aws", "us-east-1", "g4dn.12xlarge"): ("T4", 4, 3.912, None, "active"),
    ("aws", "us-east-1", "g4dn.metal"): ("T4", 8, 7.824, None, "active"),
    ("aws", "us-east-1", "g5.xlarge"): ("A10G", 1, 1.006, (0.42, 0.45), "active"),
    ("aws", "us-east-1", "g5.2xlarge"): ("A10G", 1, 1.212, None, "active"),
    ("aws", "us-east-1", "g5.12xlarge"): ("A10G", 4, 5.672, None, "active"),
    ("aws", "us-east-1", "g5.48xlarge"): ("A10G", 8, 16.288, None, "active"),
    ("aws", "us-east-1", "g6.xlarge"): ("L4", 1, 0.8048, None, "active"),
    ("aws", "us-east-1", "g6.2xlarge"): ("L4", 1, 0.9776, None, "active"),
    ("aws", "us-east-1", "g6.12xlarge"): ("L4", 4, 4.6016, None, "active"),
    ("aws", "us-east-1", "g6.48xlarge"): ("L4", 8, 13.3504, None, "active"),
    ("aws", "us-east-1", "g6e.xlarge"): ("L40S", 1, 1.861, None, "active"),
    ("aws", "us-east-1", "g6e.12xlarge"): ("L40S", 4, 10.49264, None, "active"),
    ("aws", "us-east-1", "g6e.48xlarge"): ("L40S", 8, 30.13118, None, "active"),
    ("aws", "us-east-1", "p4d.24xlarge"): ("A100-40GB", 8, 21.957642, None, "active"),
    ("aws", "us-east-1", "p4de.24xlarge"): ("A100-80GB", 8, 27.44705, (8.65, 9.97), "active"),
    ("aws", "us-east-1", "p5.4xlarge"): ("H100", 1, 6.880, None, "active"),
    ("aws", "us-east-1", "p5.48xlarge"): ("H100", 8, 55.040, (10.2, 25.8), "active"),
    ("aws", "us-east-1", "p5en.48xlarge"): ("H200", 8, 63.296, None, "active"),
    ("aws", "us-east-1", "p6-b200.48xlarge"): ("B200", 8, 113.9328, None, "active"),
    ("azure", "eastus", "NC4as_T4_v3"): ("T4", 1, 0.526, None, "active"),
    ("azure", "eastus", "NC64as_T4_v3"): ("T4", 4, 4.352, None, "active"),
    ("azure", "eastus", "NC6s_v3"): ("V100", 1, 3.060, None, "retired"),
    ("azure", "eastus", "NC24s_v3"): ("V100", 4, 12.240, None, "retired"),
    ("azure", "eastus", "NC24ads_A100_v4"): ("A100-80GB-PCIe", 1, 3.673, None, "active"),
    ("azure", "eastus", "ND96asr_v4"): ("A100-40GB", 8, 27.197, None, "active"),
    ("azure", "eastus", "ND96amsr_A100_v4"): ("A100-80GB", 8, 32.770, None, "active"),
    ("azure", "eastus", "ND96isr_H100_v5"): ("H100", 8, 98.320, None, "active"),
    ("azure", "eastus2", "ND96isr_H200_v5"): ("H200", 8, 84.800, None, "active"),
}

# CS 181AI lecture 14, slide "Computation: why is it important?": USD for three years of an AWS instance, its single
# precision TFLOP/s as printed there, and the dollars per TFLOP/s printed beside it.
RESERVED = {
    "p3.2xlarge": (35029, 15.0, 2335),
    "p3.8xlarge": (140089, 60.0, 2335),
    "p3.16xlarge": (280205, 120.0, 2335),
    "p2.xlarge": (12071, 4.4, 2765),
    "p2.8xlarge": (96566, 34.9, 2765),
    "p2.16xlarge": (193133, 69.8, 2765),
}
PURCHASES = {"DGX-1V": ("V100", 149000, 120.0, 1242), "DGX-1P": ("P100-SXM2", 129000, 84.8, 1521)}


# The shipped figures


def test_gpus_are_as_published():
    assert set(CATALOG.gpus) > set(GPUS)
    for name, (memory, bandwidth, fp16, fp32, tdp, pcie, nvlink, capability) in GPUS.items():
        gpu = CATALOG.gpus[name]
        assert gpu.memory_bytes == memory * 10**9
        assert (gpu.memory_bytes_per_s, gpu.pcie_bytes_per_s) == pytest.approx((bandwidth * 1e9, pcie * 1e9))
        assert (gpu.fp32_flops, gpu.tdp_w) == pytest.approx((fp32 * 1e12, tdp))
        assert gpu.tensor_fp16_flops == (None if fp16 is None else pytest.approx(fp16 * 1e12))
        assert gpu.nvlink_bytes_per_s == (None if nvlink is None else pytest.approx(nvlink * 1e9))
        assert gpu.compute_capability == capability


def test_gpus_are_possible_and_sourced():
    for gpu in CATALOG.gpus.values():
        assert (4e9 if gpu.cores else 20e9) < gpu.memory_bytes_per_s < 10e12
        assert 1e9 < gpu.pcie_bytes_per_s <= gpu.link_bytes_per_s < gpu.memory_bytes_per_s
        assert 0 < gpu.idle_w < gpu.tdp_w
        assert gpu.peak_flops("amp") >= gpu.fp32_flops
        assert gpu.source
    assert "calibrate" in CATALOG.gpus["A10G"].source
    assert "tensor_fp16_tflops" in CATALOG.gpus["A10G"].assumed


# Operations of one multiprocessor in one clock, by compute capability: fp32 on vector units (CUDA C++ Programming
# Guide, throughput of native arithmetic), dense fp16 on matrix units (papers on each architecture; AMD's CDNA).
OF_A_CLOCK = {
    "3.7": (384, None),
    "5.3": (256, None),
    "6.0": (128, None),
    "6.1": (256, None),
    "7.0": (128, 1024),
    "7.2": (128, 1024),
    "7.5": (128, 1024),
    "8.0": (128, 2048),
    "8.6": (256, 1024),
    "8.7": (256, 2048),
    "8.9": (256, 1024),
    "9.0": (256, 4096),
    "10.0": (256, 8192),
    "10.3": (256, 8192),
    "11.0": (256, 8192),
    "12.0": (256, 1024),
    "12.1": (256, 1024),
    "gfx90a": (128, 1024),
    "gfx942": (256, 2048),
    "gfx950": (256, 4096),
}
CLOCKS_GHZ = (0.4, 3.0)
"""From a Jetson in its mode of 15 W."""
GEFORCE = re.compile(r"RTX\d{4}(Ti)?")
HALVED = {"A10G", "L40"}
"""Matrix units of boards for games take fp16 products at half the rate where they add up in fp32; so do these."""
TO_FP16 = {"tensor_fp8_flops": 2.0, "tensor_int8_flops": 2.0, "tensor_tf32_flops": 0.5}
"""Rate over that of fp16 on the same matrix units."""
INT8_TO_FP16 = {"10.3": 1 / 15, "gfx90a": 1.0}
"""Where an architecture has no such units for int8, or few."""
SAME_RATE = 0.05
"""Data sheets round, and some state two rates at two clocks."""
SAME_CLOCK = 0.2
"""Matrix units may run at a boost of their own: 12 % lower on an H100. A sparse rate is twice the dense one."""
READS_PER_SECOND_MAX = 84
"""The quickest memory per byte is GDDR6X in chips of 1 GB: 32 lines of 21 Gb/s."""


@pytest.mark.parametrize("gpu", [gpu for gpu in CATALOG.gpus.values() if gpu.sm_count], ids=lambda gpu: gpu.name)
def test_rates_of_gpus_are_units_times_a_clock(gpu: GPU) -> None:
    vector, matrix = OF_A_CLOCK[gpu.compute_capability]
    clock_ghz = gpu.fp32_flops / (vector * gpu.sm_count) / 1e9
    assert CLOCKS_GHZ[0] < clock_ghz < CLOCKS_GHZ[1]
    assert gpu.memory_bytes_per_s / gpu.memory_bytes < READS_PER_SECOND_MAX
    if matrix is not None:
        share = gpu.tensor_fp16_flops / (matrix * gpu.sm_count) / 1e9 / clock_ghz
        assert share == pytest.approx(0.5 if is_halved(gpu) else 1, rel=SAME_CLOCK)


@pytest.mark.parametrize("rate", TO_FP16)
def test_rates_on_matrix_units_are_multiples_of_that_at_fp16(rate: str) -> None:
    gpus = [gpu for gpu in CATALOG.gpus.values() if gpu.sm_count and getattr(gpu, rate)]
    assert gpus
    for gpu in gpus:
        usual = TO_FP16[rate]
        if rate == "tensor_int8_flops":
            to_fp16 = 2 * usual if GEFORCE.fullmatch(gpu.name) else usual
            usual = INT8_TO_FP16.get(gpu.compute_capability, to_fp16)
        assert getattr(gpu, rate) == pytest.approx(usual * gpu.tensor_fp16_flops, rel=SAME_RATE), gpu.name


def is_halved(gpu: GPU) -> bool:
    """Whether its matrix units take fp16 at half the rate."""
    return GEFORCE.fullmatch(gpu.name) is not None or gpu.name in HALVED


def test_idle_power_is_said_to_be_assumed():
    assert CATALOG.gpus["V100"].idle_w == pytest.approx(60)
    (assumed,) = CATALOG.assumptions
    assert (assumed.code, dict(assumed.figures)) == (Code.IDLE_POWER, {"share_of_tdp": 0.2})
    assert "V100" in assumed.subjects


def test_prices_are_as_listed():
    listed = {(i.provider, i.region, i.name): i for i in CATALOG.instances}
    assert set(listed) > set(PRICES)
    for instance in (listed[key] for key in PRICES):
        gpu, gpu_count, usd, spot, status = PRICES[instance.provider, instance.region, instance.name]
        on_demand = instance.prices[PriceKind.ON_DEMAND]
        assert (instance.gpu, instance.gpu_count, on_demand.usd_per_hour, instance.status) == (
            gpu,
            gpu_count,
            usd,
            status,
        )
        assert on_demand.as_of >= {"aws": "2026-07-20", "azure": "2026-06-18"}[instance.provider]
        if spot:
            assert instance.prices[PriceKind.SPOT].as_of >= "2025-01-01"


def test_confirmed_reservations():
    (prices,) = (i.prices for i in CATALOG.instances if (i.region, i.name) == ("us-east-1", "g4dn.xlarge"))
    assert (prices[PriceKind.RESERVED_1Y].usd_per_hour, prices[PriceKind.RESERVED_3Y].usd_per_hour) == (0.316, 0.210)


@pytest.mark.parametrize("name", RESERVED)
def test_three_years_of_the_lecture(name):
    """The dollars per TFLOP/s come out as printed, within what rounding to 0.1 TFLOP/s leaves open."""
    usd, tflops, usd_per_tflops = RESERVED[name]
    price = PRICED["aws", name].prices[PriceKind.RESERVED_3Y]
    assert price.usd_per_hour * 3 * 8760 == pytest.approx(usd)
    assert price.usd_per_hour * 3 * 8760 / tflops == pytest.approx(usd_per_tflops, rel=0.05 / tflops)
    assert price.as_of == "2023-03-06"


def test_purchases():
    assert {purchase.machine for purchase in CATALOG.purchases} == set(PURCHASES)
    for purchase in CATALOG.purchases:
        gpu, usd, tflops, usd_per_tflops = PURCHASES[purchase.machine]
        assert (purchase.gpu, purchase.gpu_count, purchase.usd) == (gpu, 8, usd)
        assert purchase.usd / tflops == pytest.approx(usd_per_tflops, rel=0.05 / tflops)
        assert (purchase.as_of, bool(purchase.source)) == ("2023-03-06", True)


def test_prices_are_possible_and_dated():
    for instance in CATALOG.instances:
        assert instance.gpu in CATALOG.gpus
        on_demand = instance.prices.get(PriceKind.ON_DEMAND)
        for kind, price in instance.prices.items():
            assert price.usd_per_hour > 0
            assert kind is PriceKind.ON_DEMAND or not on_demand or price.usd_per_hour < on_demand.usd_per_hour
            assert date.fromisoformat(price.as_of).isoformat() == price.as_of
            assert price.source


def test_reserving_for_longer_costs_less_an_hour():
    for instance in CATALOG.instances:
        if PriceKind.RESERVED_1Y in instance.prices:
            one, three = (instance.prices[kind] for kind in (PriceKind.RESERVED_1Y, PriceKind.RESERVED_3Y))
            assert three.usd_per_hour < one.usd_per_hour


# Files of one's own

SOURCES = "sources: {mine: {title: our contract, as_of: 2026-09-01}}\n"
ROW = "{provider: aws, region: us-east-1, instance: %s, gpu: %s, gpu_count: 1, prices: {on-demand: %s}}"
MINE = "{usd_per_hour: 0.4, source: mine}"
GPU_ROW = "{memory_gb: 10, memory_bandwidth_gb_per_s: 700, fp32_tflops: 20, tdp_w: 200, pcie_gb_per_s: 32"


PRICE_A = {"on-demand": {"usd_per_hour": 0.4, "source": "mine"}}
SOURCE_A = {"mine": {"title": "our contract", "as_of": "2026-09-01"}}


def directory(path: Path, **files: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return path


def listed(*rows: str) -> str:
    return SOURCES + "instances:\n" + "".join(f"  - {row}\n" for row in rows)


def errors(*directories: Path) -> list[str]:
    with pytest.raises(CatalogError) as error:
        load_catalog(directories)
    return str(error.value).splitlines()


def test_the_first_directory_wins_and_the_shipped_come_last(tmp_path):
    first = directory(tmp_path / "a", prices=listed(ROW % ("g4dn.xlarge", "T4", MINE)))
    second = directory(
        tmp_path / "b",
        prices=listed(
            ROW % ("g4dn.xlarge", "T4", "{usd_per_hour: 0.5, source: mine}"), ROW % ("g9.xlarge", "X1", MINE)
        ),
        gpus=f"source: our lab\ngpus:\n  X1: {GPU_ROW}, idle_w: 20}}\n  T4: {GPU_ROW}, idle_w: 9}}\n",
    )
    catalog = load_catalog((first, second))
    at_home = [i for i in catalog.instances if i.region == "us-east-1"]
    on_demand = {i.name: i.prices[PriceKind.ON_DEMAND] for i in at_home}
    assert on_demand["g4dn.xlarge"].usd_per_hour == 0.4
    assert (on_demand["g4dn.xlarge"].as_of, on_demand["g4dn.xlarge"].source) == ("2026-09-01", "our contract")
    assert on_demand["g9.xlarge"].usd_per_hour == 0.4
    assert on_demand["g4dn.2xlarge"].usd_per_hour == 0.752
    assert (catalog.gpus["X1"].memory_bytes, catalog.gpus["X1"].idle_w) == (10_000_000_000, 20)
    assert (catalog.gpus["T4"].idle_w, catalog.gpus["T4"].source) == (9, "our lab")
    assert catalog.gpus["V100"] == CATALOG.gpus["V100"]
    assert len(catalog.instances) == len(CATALOG.instances) + 1
    (assumed,) = catalog.assumptions
    assert "T4" not in assumed.subjects
    at_home = [i for i in load_catalog((second, first)).instances if i.region == "us-east-1"]
    reverse = next(i for i in at_home if i.name == "g4dn.xlarge")
    assert reverse.prices[PriceKind.ON_DEMAND].usd_per_hour == 0.5


def test_host_memory_is_known_where_given(tmp_path):
    row = ROW.replace("gpu_count: 1", "gpu_count: 1, host_memory_gb: 17.18") % ("g4dn.xlarge", "T4", MINE)
    other = ROW % ("mine", "T4", MINE)
    catalog = load_catalog((directory(tmp_path, prices=listed(row, other)),))
    found, _ = offers(catalog, BuySpec(instances=("g4dn.xlarge", "mine"), regions=("us-east-1",)))
    assert {offer.instance: offer.host_memory_bytes for offer in found} == {
        "g4dn.xlarge": 17_180_000_000,
        "mine": None,
    }


@pytest.mark.parametrize(
    "row",
    [
        "aws,us-east-1,mine,T4,1,24,active,spot,0.2,0.2,2026-06-01,a list,",
        "aws,eu-west-1,mine,T4,1,24,active,on-demand,0.5,0.5,2026-06-01,a list,",
    ],
)
def test_host_memory_is_what_the_other_list_or_another_region_says(tmp_path, row):
    directory(tmp_path, prices=listed(ROW % ("mine", "T4", MINE)))
    without = "aws,us-east-1,mine,T4,1,,active,reserved-1y,0.3,0.3,2026-06-01,a list,"
    header = (SHIPPED / "prices.csv").read_text(encoding="utf-8").split("\n", 1)[0]
    (tmp_path / "prices.csv").write_text("\n".join([header, without, row, ""]), encoding="utf-8")
    ((offer,), _) = offers(load_catalog([tmp_path]), BuySpec(instances=("mine",), regions=("us-east-1",)))
    assert offer.host_memory_bytes == 24_000_000_000
    assert offer.usd_per_hour == 0.4


def memory_by_region(*directories: Path) -> dict[str, float | None]:
    """Of machines that are called `node`, in GB."""
    found = [one for one in load_catalog(directories).instances if one.name == "node"]
    return {one.region: one.host_memory_bytes and one.host_memory_bytes / 1e9 for one in found}


def priced(path: Path, *rows: str) -> Path:
    """A directory with a prices.csv of these rows."""
    path.mkdir(exist_ok=True)
    header = (SHIPPED / "prices.csv").read_text(encoding="utf-8").split("\n", 1)[0]
    (path / "prices.csv").write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("rows", "known"),
    [
        (["lab,west,node,T4,8,99,active,on-demand,9,9,2026-06-01,l,"], None),  # another machine of that name
        (["lab,west,node,L4,1,99,active,on-demand,9,9,2026-06-01,l,"], None),
        (["lab,west,node,T4,1,99,active,on-demand,9,9,2026-06-01,l,"], 99),
        (["lab,east,node,T4,1,64,active,on-demand,0.5,0.5,2026-01-01,l,"], 64),  # an older price of its own
        (["lab,east,node,T4,1,64,active,spot,0.5,0.5,2026-01-01,l,"], 64),
        (
            [
                "lab,east,node,T4,1,64,active,spot,0.5,0.5,2026-01-01,l,",
                "lab,east,node,T4,1,16,active,reserved-1y,0.5,0.5,2026-03-01,l,",
                "lab,west,node,T4,1,99,active,on-demand,9,9,2026-06-01,l,",
            ],
            16,
        ),
    ],
)
def test_host_memory_is_that_of_the_same_machine_by_its_newest_row(tmp_path, rows, known):
    own = "lab,east,node,T4,1,,active,on-demand,0.6,0.6,2026-06-01,l,"
    assert memory_by_region(priced(tmp_path, own, *rows))["east"] == known


def test_the_first_directory_that_says_a_memory_is_believed(tmp_path):
    mine = priced(
        tmp_path / "mine",
        "lab,a,node,T4,1,,active,on-demand,1,1,2026-06-01,l,",
        "lab,b,node,T4,1,32,active,on-demand,1,1,2026-06-01,l,",
    )
    other = [f"lab,{region},node,T4,1,16,active,on-demand,1,1,2026-06-01,l," for region in "bc"]
    assert memory_by_region(mine, priced(tmp_path / "other", *other)) == {"a": 32, "b": 32, "c": 16}


def test_two_lists_may_not_mean_other_machines_by_one_name(tmp_path):
    directory(tmp_path, prices=listed(ROW % ("mine", "T4", MINE)))
    priced(tmp_path, "aws,us-east-1,mine,H100,8,2000,active,on-demand,0.4,0.4,2026-10-01,a list,")
    (line,) = errors(tmp_path)
    assert line == f"{tmp_path}/prices.csv: mine of aws us-east-1 has 8 x H100, in prices.yaml 1 x T4. Keep one."


def test_days_are_compared_however_they_are_written(tmp_path):
    rows = [
        f"lab,east,node,T4,1,,active,on-demand,{usd},{usd},{day},l,"
        for usd, day in ((2, "2026-06-01"), (1, "20260501"))
    ]
    (node,) = (one for one in load_catalog([priced(tmp_path, *rows)]).instances if one.name == "node")
    assert [(price.usd_per_hour, price.as_of) for price in node.prices.values()] == [(2, "2026-06-01")]


def test_machines_that_are_sold_by_their_name_have_a_known_memory():
    """Of AWS all that are for sale: the lists of prices say it, in one region at least."""
    instances = [one for one in load_catalog().instances if one.provider == "aws" and one.status is SaleStatus.ACTIVE]
    assert len(instances) > 50
    assert not [one.name for one in instances if one.host_memory_bytes is None]


ONE_AMOUNT = "needs exactly one of usd_per_hour, usd_per_hour_low with usd_per_hour_high, and usd_in_all. Write one."
BOTH_ENDS = "needs usd_per_hour_low and usd_per_hour_high, the low one first. Write both."
BAD_PRICES = {
    "{usd_per_hour: 0, source: mine}": ".usd_per_hour: must be above 0, got 0.",
    "{usd_per_hour: -1, source: mine}": ".usd_per_hour: must be above 0, got -1.",
    "{usd_per_hour: .inf, source: mine}": ".usd_per_hour: must be a finite number",
    "{usd_per_hour: cheap, source: mine}": ".usd_per_hour: must be a number, got `cheap`.",
    "{usd_per_hour: 1, source: min}": ".source: `min` is not known. Did you mean `mine`?",
    "{usd_per_hours: 1, source: mine}": ".usd_per_hours: unknown key. Did you mean `usd_per_hour`?",
    "{source: mine}": f": {ONE_AMOUNT}",
    "{usd_per_hour: 1, usd_in_all: 1, source: mine}": f": {ONE_AMOUNT}",
    "{usd_per_hour_low: 1, source: mine}": f": {BOTH_ENDS}",
    "{usd_per_hour_low: 2, usd_per_hour_high: 1, source: mine}": f": {BOTH_ENDS}",
    "{usd_per_hour_low: 1, usd_per_hour_high: 2, source: mine}": ".usd_per_hour_low: on-demand has no range.",
    "{usd_in_all: 100, source: mine}": ".usd_in_all: on-demand has no term. Write usd_per_hour.",
}


@pytest.mark.parametrize("price", BAD_PRICES)
def test_bad_prices(price, tmp_path):
    lines = errors(directory(tmp_path, prices=listed(ROW % ("a", "T4", price))))
    assert lines[0].startswith(f"{tmp_path}/prices.yaml:3:")
    assert f"instances[0].prices.on-demand{BAD_PRICES[price]}" in lines[0]


ROW_A = ROW % ("a", "T4", MINE)
BAD_ROWS = {
    "unknown GPU": (ROW % ("a", "V10O", MINE), "[0].gpu: `V10O` is not known. Did you mean `V100`?"),
    "half a GPU": (
        ROW % ("a", "A100", MINE),
        "[0].gpu: `A100` is not known. Did you mean `A100-40GB` or",
    ),
    "kind": (ROW_A.replace("on-demand", "ondemand"), "[0].prices.ondemand: must be one of on-demand, spot,"),
    "no price": (ROW_A.replace(f"on-demand: {MINE}", ""), "[0].prices: must not be empty. Add at least one item."),
    "status": (
        ROW_A.replace("gpu:", "status: gone, gpu:"),
        "[0].status: must be one of active, retired, unclear, got `gone`.",
    ),
    "count": (ROW_A.replace("gpu_count: 1", "gpu_count: 0"), "[0].gpu_count: must be at least 1, got 0."),
    "missing": (ROW_A.replace("gpu: T4,", ""), "[0].gpu: is missing. Add it."),
    "name": (ROW % ('"my machine"', "T4", MINE), "[0].instance: must be a name of 1 to 64 letters"),
    "twice": (f"{ROW_A}\n  - {ROW_A}", "[1]: a of aws us-east-1 is listed twice. Keep one."),
    "own": (ROW_A.replace("aws", "own"), "[0].provider: `own` means machines of your own. Write them under `buy.own`"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(case, tmp_path):
    row, message = BAD_ROWS[case]
    lines = errors(directory(tmp_path, prices=listed(row)))
    assert lines[0].startswith(f"{tmp_path}/prices.yaml:")
    assert f": instances{message}" in lines[0]


def test_an_error_stands_where_its_value_stands(tmp_path):
    row = ROW_A.replace("gpu_count: 1", "gpu_count: 0")
    (line,) = errors(directory(tmp_path, prices=listed(row)))
    column = f"  - {row}".index("0, prices") + 1
    assert line.startswith(f"{tmp_path}/prices.yaml:3:{column}: ")


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just([]) | st.just({})


@settings(max_examples=40)
@given(key=st.sampled_from(["provider", "region", "instance", "gpu", "gpu_count", "prices", "status"]), value=ANYTHING)
def test_any_value_is_read_or_refused_in_lines_that_name_the_file(tmp_path_factory, key, value):
    row = {"provider": "aws", "region": "r", "instance": "a", "gpu": "T4", "gpu_count": 1, "prices": PRICE_A}
    text = yaml.safe_dump({"sources": SOURCE_A, "instances": [row | {key: value}]}, allow_unicode=True)
    path = directory(tmp_path_factory.getbasetemp() / "any", prices=text)
    lines = []
    try:
        catalog = load_catalog((path,))
    except CatalogError as error:
        lines = str(error).splitlines()
    assert lines or all(price.usd_per_hour > 0 for price in catalog.instances[-1].prices.values())
    assert all(line.startswith(f"{path}/prices.yaml:") for line in lines)


@pytest.mark.parametrize(
    ("day", "wrong"),
    [
        ("1 Sept", "must be a date, got `1 Sept`. Write it as 2026-07-20."),
        ("2099-01-01", "2099-01-01 is in the future. Write the day on which the prices were seen."),
    ],
)
def test_bad_date(tmp_path, day, wrong):
    (line,) = errors(directory(tmp_path, prices=f"sources: {{mine: {{title: t, as_of: {day}}}}}"))
    assert line.endswith(f":1:35: sources.mine.as_of: {wrong}")


@pytest.mark.parametrize("text", ["", "# mine\n", "# nothing\n---\n"])
def test_a_file_without_entries_is_said_so(tmp_path, text):
    (line,) = errors(directory(tmp_path, gpus=text))
    assert line == f"{tmp_path}/gpus.yaml: is empty. Write it like the shipped gpus.yaml, or leave it out."


BAD_GPUS = {
    "megabytes": (GPU_ROW.replace("10", "16000000") + ", idle_w: 1}", "gpus.X1.memory_gb: must be at most 100000"),
    "no idle power": (GPU_ROW + "}", "has no idle_w. Write it, or assumed_idle_share_of_tdp for the whole file."),
    "idle above limit": (GPU_ROW + ", idle_w: 300}", "idle_w must be below tdp_w. Write both in watts."),
    "chip of none": (
        GPU_ROW + ", idle_w: 1, chip: Nope}",
        "gpus.X1.chip: `Nope` is neither a kind nor the chip of another.",
    ),
    "chip mistyped": (
        GPU_ROW + ", idle_w: 1, chip: H10O}",
        "gpus.X1.chip: `H10O` is neither a kind nor the chip of another. Did you mean `H100`?",
    ),
    "unknown key": (GPU_ROW + ", idle_w: 1, tdp: 3}", "gpus.X1.tdp: unknown key. Did you mean `tdp_w`?"),
    "number for text": (GPU_ROW + ", idle_w: 1, compute_capability: 7.5}", "must be a text, got 7.5"),
}


@pytest.mark.parametrize("case", BAD_GPUS)
def test_bad_gpus(case, tmp_path):
    row, message = BAD_GPUS[case]
    (line,) = errors(directory(tmp_path, gpus=f"source: our lab\ngpus:\n  X1: {row}\n"))
    assert line.startswith(f"{tmp_path}/gpus.yaml:3:")
    assert message in line


@pytest.mark.parametrize(
    "chips", [{"X1": "H100"}, {"X1": "GH200"}, {"X1": "New", "X2": "New"}, {"X1": "X2", "X2": "X2"}]
)
def test_a_chip_is_that_of_another_kind(chips: dict[str, str], tmp_path: Path) -> None:
    rows = "".join(f"  {name}: {GPU_ROW}, idle_w: 1, chip: {chip}}}\n" for name, chip in chips.items())
    known = load_catalog([directory(tmp_path, gpus=f"source: our lab\ngpus:\n{rows}")]).gpus
    assert {name: known[name].chip for name in chips} == chips


def test_all_errors_come_at_once(tmp_path):
    rows = (ROW % ("a", "T4", "{usd_per_hour: 0, source: mine}"), ROW % ("b c", "T4", MINE))
    bad = directory(tmp_path / "a", prices=listed(*rows), gpus="gpus: {}\n")
    lines = errors(bad, directory(tmp_path / "empty"), tmp_path / "none")
    assert [line.split(":")[0].split("/")[-1] for line in lines] == [
        "gpus.yaml",
        "prices.yaml",
        "prices.yaml",
        "empty",
        "none",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("- a", "must be a mapping"),
        ("sources: [", "is not YAML"),
        ("sources: !!python/name:os {}", "tag"),
        ("sources: {}\nsources: {}", "key `sources` is given twice"),
    ],
)
def test_bad_yaml(text, message, tmp_path):
    lines = errors(directory(tmp_path, prices=text))
    assert lines[0].startswith(f"{tmp_path}/prices.yaml")
    assert message in lines[0]


# What is on offer


def names(found: list[Offer]) -> set[str]:
    return {offer.instance for offer in found}


def test_all_that_is_still_sold_is_on_offer():
    found, refused = offers(CATALOG, BuySpec())
    on_demand = [i for i in CATALOG.instances if PriceKind.ON_DEMAND in i.prices]
    assert names(found) == {i.name for i in on_demand if i.status is SaleStatus.ACTIVE}
    retired = {no.subject.instance for no in refused if no.bottleneck is Bottleneck.RETIRED}
    assert retired == {i.name for i in on_demand if i.status is SaleStatus.RETIRED}
    assert retired >= {name for (_, _, name), row in PRICES.items() if row[4] == "retired"}


def test_what_may_not_be_had_is_offered_only_by_name():
    unclear = next(i for i in CATALOG.instances if i.status is SaleStatus.UNCLEAR and PriceKind.ON_DEMAND in i.prices)
    assert unclear.name not in names(offers(CATALOG, BuySpec())[0])
    assert unclear.name in names(offers(CATALOG, BuySpec(instances=(unclear.name,)))[0])


def test_a_price_that_its_provider_raised_since_is_not_offered():
    old = next(i for i in CATALOG.instances if i.name == "1V100.6V")
    assert old.status is SaleStatus.UNCLEAR
    assert old.name not in names(offers(CATALOG, BuySpec(providers=("verda",)))[0])


def test_an_offer_tells_all():
    (offer,), refused = offers(CATALOG, BuySpec(instances=("NC64as_T4_v3",), regions=("eastus",)))
    assert offer == Offer(
        provider="azure",
        region="eastus",
        instance="NC64as_T4_v3",
        gpu=CATALOG.gpus["T4"],
        gpu_count=4,
        usd_per_hour=4.352,
        price_kind=PriceKind.ON_DEMAND,
        status=SaleStatus.ACTIVE,
        as_of="2026-06-18",
        source="Azure public price list, eastus and eastus2, Linux",
        memory_bytes=16_000_000_000,
        host_memory_bytes=440_000_000_000,
        count_max=None,
        spot_range=None,
        host_cores=64,
        network_bytes_per_s=(32e9 / 8, 32e9 / 8),
    )
    assert refused == []


@pytest.mark.parametrize(
    ("buy", "expected"),
    [
        (
            BuySpec(providers=("azure",), regions=("eastus",), gpus=("T4",)),
            {"NC4as_T4_v3", "NC8as_T4_v3", "NC16as_T4_v3", "NC64as_T4_v3"},
        ),
        (BuySpec(providers=("crusoe",), gpus=("A40", "L40S")), {"A40-1x", "L40S-1x"}),
        (BuySpec(instances=("g5.xlarge", "p5.4xlarge")), {"g5.xlarge", "p5.4xlarge"}),
    ],
)
def test_wishes_narrow_the_offers(buy, expected):
    found, refused = offers(CATALOG, buy)
    assert (names(found), refused) == (expected, [])


def test_what_is_no_longer_sold_is_rejected_with_a_remedy():
    buy = BuySpec(instances=("p3.2xlarge",))
    found, (no,) = offers(CATALOG, buy)
    assert found == []
    assert (subject_name(no.subject), no.bottleneck) == ("p3.2xlarge (V100, aws us-east-1)", Bottleneck.RETIRED)
    assert [one.code for one in no.remedies] == [Code.ALLOW_RETIRED]
    (offer,), refused = offers(CATALOG, replace(buy, retired=True))
    assert (offer.usd_per_hour, offer.status, refused) == (3.06, SaleStatus.RETIRED, [])


def test_spot_takes_the_upper_end():
    found, refused = offers(CATALOG, BuySpec(price=PriceKind.SPOT, retired=True))
    ranged = [offer for offer in found if offer.spot_range]
    assert len(ranged) > 20
    assert all(offer.usd_per_hour == offer.spot_range[1] > offer.spot_range[0] for offer in ranged)
    assert {no.bottleneck for no in refused} == {Bottleneck.PRICE}


def test_a_missing_price_is_rejected_with_a_remedy():
    found, (no,) = offers(CATALOG, BuySpec(instances=("g4dn.2xlarge",), price=PriceKind.RESERVED_3Y))
    assert found == []
    assert no.why == Statement(code=Code.NO_PRICE, subjects=("reserved-3y",))
    assert [(remedy.code, remedy.subjects) for remedy in no.remedies] == [
        (Code.OTHER_PRICE, ("reserved-3y", "on-demand"))
    ]


def test_reserved_for_three_years():
    (offer,), _ = offers(CATALOG, BuySpec(instances=("p3.16xlarge",), price=PriceKind.RESERVED_3Y, retired=True))
    assert offer.usd_per_hour == pytest.approx(280205 / 26280)


def test_a_gpu_that_nobody_rents_is_rejected_with_a_remedy():
    found, (no,) = offers(CATALOG, BuySpec(gpus=("GTX580", "L4"), providers=("aws",)))
    assert {offer.gpu.name for offer in found} == {"L4"}
    assert (no.subject, no.bottleneck) == (OnGpu(gpu="GTX580"), Bottleneck.PRICE)
    assert no.remedies == (Statement(code=Code.PRICE_THE_GPU, subjects=("GTX580",)),)


@pytest.mark.parametrize(
    ("buy", "keys"),
    [
        (BuySpec(gpus=("L4",), instances=("g4dn.xlarge",)), ("buy.instances",)),
        (BuySpec(gpus=("L4",), providers=("azure",)), ("buy.providers",)),
    ],
)
def test_the_key_that_keeps_a_gpu_out_is_named(buy, keys):
    _, (no,) = offers(CATALOG, buy)
    assert no.remedies == (Statement(code=Code.WIDEN_BUY, subjects=(*keys, "L4")),)
    assert rejection_remedy(no) == f"name what has an L4 in `{keys[0]}` too, or leave that key out"


def test_of_a_gpu_that_nobody_rents_a_like_name_that_somebody_does_is_told():
    _, (no,) = offers(CATALOG, BuySpec(gpus=("L40",)))
    assert no.remedies[0] == Statement(code=Code.NEAR_GPU, subjects=("L40S",))
    assert rejection_remedy(no).startswith("write L40S under buy.gpus, if that was meant, or ")


BOX = OwnMachine(
    name="box", gpu="V100", gpu_count=2, memory=12_000_000_000, host_memory=64_000_000_000, price=0.3, count=3
)


def test_with_machines_of_ones_own_nothing_is_rented():
    (offer,), refused = offers(CATALOG, BuySpec(own=(BOX,)))
    assert (offer.provider, offer.instance, offer.gpu_count, offer.count_max) == ("own", "box", 2, 3)
    assert (offer.memory_bytes, offer.host_memory_bytes) == (12_000_000_000, 64_000_000_000)
    assert (offer.usd_per_hour, offer.price_kind, offer.as_of) == (0.3, None, "")
    assert refused == []
    assert offers(CATALOG, BuySpec(own=(replace(BOX, memory=None),)))[0][0].memory_bytes == 16_000_000_000


def test_machines_of_ones_own_that_named_gpus_leave_out_are_told():
    other = replace(BOX, name="small", gpu="T4")
    buy = BuySpec(own=(BOX, other), providers=("aws",), gpus=("T4", "L4"))
    assert {offer.gpu.name for offer in offers(CATALOG, buy)[0]} == {"T4", "L4"}
    (told,) = map(warning_line, own_left_out(buy))
    assert told.startswith("Of your own machines box (V100) have no part in this")
    assert "add these kinds to buy.gpus" in told
    (both,) = own_left_out(replace(buy, gpus=("L4",)))
    assert both.what.subjects == ("box (V100)", "small (T4)")
    assert own_left_out(replace(buy, gpus=())) == own_left_out(replace(buy, gpus=("T4", "V100"))) == []


def test_with_providers_both_are_on_offer():
    found, _ = offers(
        CATALOG, BuySpec(own=(BOX,), providers=("azure",), regions=("eastus",), gpus=("V100",), retired=True)
    )
    assert found[0].instance == "box"
    assert {"NC6s_v3", "NC24s_v3"} < names(found)


KNOWN_PROVIDERS = known_ones("ibmz", sorted({i.provider for i in CATALOG.instances}), "`planner prices show`")
BAD_WISHES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "provider": ({"providers": ("asw",)}, ["buy.providers[0]: `asw` is not in the catalog. Did you mean `aws`?"]),
    "no idea": ({"providers": ("ibmz",)}, [f"buy.providers[0]: `ibmz` is not in the catalog.{KNOWN_PROVIDERS}"]),
    "region": ({"regions": ("eastus3",)}, ["buy.regions[0]: `eastus3` is not in the catalog. Did you mean `eastus`?"]),
    "gpu": (
        {"gpus": ("T4", "A100")},
        [
            "buy.gpus[1]: `A100` is not in the catalog. Did you mean `A100-40GB` or `A100-40GB-PCIe` or `A100-80GB`"
            " or `A100-80GB-PCIe`?"
        ],
    ),
    "instance": (
        {"instances": ("g4dn.xlagre",)},
        ["buy.instances[0]: `g4dn.xlagre` is not in the catalog. Did you mean `g4dn.xlarge`?"],
    ),
    "own GPU": (
        {"own": (replace(BOX, gpu="v100"),)},
        ["buy.own[0].gpu: `v100` is not in the catalog. Did you mean `V100`?"],
    ),
    "own memory": (
        {"own": (replace(BOX, memory=32_000_000_000),)},
        [
            "buy.own[0].memory: must be above 0 and at most the 16 GB of a V100, got 32 GB. Write 16 GB or less.",
        ],
    ),
    "two at once": (
        {"providers": ("ibmz",), "own": (BOX, BOX)},
        [
            f"buy.providers[0]: `ibmz` is not in the catalog.{KNOWN_PROVIDERS}",
            "buy.own[1].name: `box` is taken by buy.own[0]. Write another, or `count` there.",
        ],
    ),
    "nowhere": (
        {"providers": ("aws",), "regions": ("eastus",)},
        ["buy: no instance is at once of these providers, regions and instances. Leave one of them out."],
    ),
}


@pytest.mark.parametrize("case", BAD_WISHES)
def test_bad_wishes(case):
    wishes, lines = BAD_WISHES[case]
    with pytest.raises(CatalogError) as error:
        offers(CATALOG, BuySpec(**wishes))
    assert str(error.value).splitlines() == lines


def test_smaller_clouds_change_within_weeks():
    day = date(2026, 9, 1)
    assert not stale("2026-07-20", day, usual_days("aws"))
    assert stale("2026-07-20", day, usual_days("runpod"))


OLD_ROW = "runpod,any,mine,T4,1,,active,on-demand,1.0,1.0,2025-01-01,a list,"


@pytest.mark.parametrize(
    ("row", "usd_per_hour"),
    [
        ("runpod,any,average,T4,1,,unclear,on-demand,2.0,2.0,2026-06-01,a list,", 2.0),
        ("runpod,eu,mine,T4,1,,active,on-demand,2.0,2.0,2026-06-01,a list,", 2.0),
        ("runpod,any,average,T4,1,,unclear,on-demand,0.5,0.5,2026-06-01,a list,", 1.0),  # cheaper
        ("runpod,any,average,T4,1,,unclear,on-demand,2.0,2.0,2025-01-20,a list,", 1.0),  # hardly newer
        ("runpod,any,average,T4,1,,unclear,spot,2.0,2.0,2026-06-01,a list,", 1.0),
        ("runpod,any,average,T4,4,,unclear,on-demand,2.0,2.0,2026-06-01,a list,", 1.0),
        ("vast,any,average,T4,1,,unclear,on-demand,2.0,2.0,2026-06-01,a list,", 1.0),
        ("runpod,any,other,T4,1,,active,on-demand,2.0,2.0,2026-06-01,a list,", 1.0),  # more processors, maybe
        ("runpod,eu,mine,T4,1,,retired,on-demand,2.0,2.0,2026-06-01,a list,", 1.0),
    ],
)
def test_an_old_price_gives_way_to_what_is_asked_since(tmp_path, row, usd_per_hour):
    header = (SHIPPED / "prices.csv").read_text(encoding="utf-8").split("\n", 1)[0]
    (tmp_path / "prices.csv").write_text("\n".join([header, OLD_ROW, row, ""]), encoding="utf-8")
    wish = BuySpec(providers=("runpod",), instances=("mine",), regions=("any",))
    ((offer,), _) = offers(load_catalog([tmp_path]), wish)
    assert offer.usd_per_hour == usd_per_hour
    assert ("mine itself was $1/h on 2025-01-01" in offer.source) is (usd_per_hour == 2.0)


def test_what_others_ask_since_moves_no_price_of_ones_own(tmp_path):
    header = (SHIPPED / "prices.csv").read_text(encoding="utf-8").split("\n", 1)[0]
    name, usd_per_hour = "gpu-h200-sxm_1gpu", 1.5
    row = f"nebius,any,{name},H200,1,,active,on-demand,{usd_per_hour},{usd_per_hour},2025-01-01,our contract,"
    (tmp_path / "prices.csv").write_text("\n".join([header, row, ""]), encoding="utf-8")
    own, shipped = (offers(load_catalog(place), BuySpec(instances=(name,)))[0][0] for place in ([tmp_path], []))
    assert own.usd_per_hour == usd_per_hour
    assert (shipped.usd_per_hour, shipped.as_of) == (5.4, "2026-10-24")


FACTS = PUBLIC.parent / "facts"


@pytest.mark.skipif(not (FACTS / "prices-2026.csv").exists(), reason="the table of prices is not here")
def test_the_table_of_prices_follows_from_what_was_found():
    text = (SHIPPED / "prices.csv").read_text(encoding="utf-8")
    assert text == csv_text(COLUMNS, collect(table(FACTS / "prices-2026.csv")))


RECALLED = {"Jetson-Orin-Nano", "Jetson-Orin-Nano-Super", "Jetson-Orin-NX-16GB"}
"""Of which the table recalls, at fp16, half of what the same multiprocessors do on its AGX Orin."""


def test_all_orins_have_the_same_multiprocessors():
    """Operations a clock: fp32 says how many clocks, int8 is 16 times it, fp16 half of that, TF32 a quarter."""
    orins = [gpu for gpu in CATALOG.gpus.values() if gpu.compute_capability == "8.7"]
    assert len(orins) == 8
    for gpu in orins:
        rates = (gpu.tensor_int8_flops, gpu.tensor_fp16_flops, gpu.tensor_tf32_flops)
        assert rates == pytest.approx(tuple(share * gpu.fp32_flops for share in (16, 8, 4)), rel=0.02), gpu.name


@pytest.mark.skipif(not (FACTS / "gpus-2026.csv").exists(), reason="the table of GPUs is not here")
def test_gpus_are_as_found():
    """Vendors round; no figure that both have differs by more than 3 %."""
    for row in table(FACTS / "gpus-2026.csv"):
        gpu = CATALOG.gpus.get(identity.gpu(row["gpu"]))
        if not row["fp32_tflops"]:
            assert gpu is None
            continue
        assert gpu.memory_bytes == pytest.approx(float(row["memory_gb"]) * 1e9)
        assert gpu.fp32_flops == pytest.approx(float(row["fp32_tflops"]) * 1e12, rel=0.03)
        assert gpu.memory_bytes_per_s == pytest.approx(float(row["memory_bandwidth_gb_per_s"]) * 1e9, rel=0.03)
        if row["fp16_bf16_tensor_dense"] and gpu.name not in RECALLED:
            assert gpu.tensor_fp16_flops == pytest.approx(float(row["fp16_bf16_tensor_dense"]) * 1e12, rel=0.03)


def test_of_conflicting_prices_the_dearer_counts():
    dearer = next(i for i in CATALOG.instances if (i.region, i.name) == ("eastus", "NC80adis_H100_v5"))
    price = dearer.prices[PriceKind.ON_DEMAND]
    assert price.usd_per_hour == 17.64
    assert "CONFLICT: 13.96" in price.note


@pytest.mark.parametrize(
    ("written", "earliest"),
    [
        ("2026-07-20", "2026-07-20"),
        ("by 2026-08-19", "2026-08-19"),
        ("2025-07..2026-05 (undated)", "2025-07-01"),
        ("2024-Q4 (page says: to be updated)", "2024-10-01"),
        ("2025-26 (undated)", "2025-01-01"),
        ("about 2020", "2020-01-01"),
    ],
)
def test_a_date_counts_from_its_earliest_day(written, earliest):
    assert day(written) == earliest


BAD_TABLES = {
    "columns": ("provider,region\n", ":1: the columns must be provider,region,instance"),
    "gpu": ("a,b,c,V10O,1,,active,on-demand,1,1,2026-01-01,s,\n", ":2: gpu: `V10O` is not in gpus.yaml"),
    "price": ("a,b,c,T4,1,,active,on-demand,2,1,2026-01-01,s,\n", ":2: needs 1 GPU or more and prices above 0"),
    "kind": ("a,b,c,T4,1,,active,monthly,1,1,2026-01-01,s,\n", ":2: 'monthly' is not a valid PriceKind"),
    "short": ("a,b,c,T4,1\n", ":2: must have 13 values"),
    "own": ("own,b,c,T4,1,,active,on-demand,1,1,2026-01-01,s,\n", ":2: provider: `own` means machines of your own."),
    "twice": (
        "a,b,c,T4,1,,active,on-demand,1,1,2026-01-01,s,\na,b,c,T4,1,,active,on-demand,2,2,2026-01-01,s,\n",
        ":3: c of a b is listed twice, on-demand on 2026-01-01. Keep one.",
    ),
    "two kinds of GPU": (
        "a,b,c,T4,1,,active,on-demand,1,1,2026-01-01,s,\na,b,c,L4,1,,active,spot,1,1,2026-01-01,s,\n",
        ":3: gpu: c of a b has `L4`, in line 2 `T4`. Keep one.",
    ),
    "two numbers of GPUs": (
        "a,b,c,T4,1,,active,on-demand,1,1,2026-01-01,s,\na,b,c,T4,4,,active,on-demand,1,1,2026-02-01,s,\n",
        ":3: gpu_count: c of a b has `4`, in line 2 `1`. Keep one.",
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(case, tmp_path):
    text, message = BAD_TABLES[case]
    header = "" if case == "columns" else f"{','.join(COLUMNS)}\n"
    (tmp_path / "prices.csv").write_text(header + text, encoding="utf-8")
    (line,) = errors(tmp_path)
    assert line.startswith(f"{tmp_path}/prices.csv{message}")


@pytest.mark.parametrize("newest_first", [False, True])
def test_of_rows_of_several_dates_the_newest_counts(newest_first, tmp_path):
    """And the status that it has; so one kind of price may be retired and another active."""
    rows = [
        "a,b,c,T4,1,,retired,on-demand,1,1,2024-01-01,s,",
        "a,b,c,T4,1,,active,on-demand,2,2,2026-01-01,s,",
        "a,b,c,T4,1,,retired,spot,0.5,0.5,2026-01-01,s,",
    ]
    rows = rows[::-1] if newest_first else rows
    (tmp_path / "prices.csv").write_text("\n".join([",".join(COLUMNS), *rows, ""]), encoding="utf-8")
    catalog = load_catalog((tmp_path,))
    (instance,) = (one for one in catalog.instances if one.provider == "a")
    assert {kind: (price.usd_per_hour, price.as_of) for kind, price in instance.prices.items()} == {
        PriceKind.ON_DEMAND: (2, "2026-01-01"),
        PriceKind.SPOT: (0.5, "2026-01-01"),
    }
    ((offer,), none), (no_offers, (refused,)) = (
        offers(catalog, BuySpec(providers=("a",), price=kind)) for kind in (PriceKind.ON_DEMAND, PriceKind.SPOT)
    )
    assert (offer.usd_per_hour, offer.status, none) == (2, SaleStatus.ACTIVE, [])
    assert (no_offers, refused.bottleneck) == ([], Bottleneck.RETIRED)
    assert "(retired)" in price_list(catalog, [instance], Screen()).split("$0.5", 1)[1].split("2026", 1)[0]


def test_stale_after_ninety_days():
    assert not stale("2026-07-20", date(2026, 10, 18))
    assert stale("2026-07-20", date(2026, 10, 19))
    assert stale("2026-07-20", date(2026, 7, 22), days=1)
    assert not stale("", date(2026, 7, 22))


def test_kinds_that_share_a_chip_name_it():
    gpus = load_catalog().gpus
    chips = {kind.chip for kind in gpus.values() if kind.chip}
    assert {name for name in gpus if gpus[name].chip == "A100" and "MIG" not in name} == {
        *("A100-40GB", "A100-40GB-PCIe", "A100-80GB", "A100-80GB-PCIe")
    }
    assert gpus["A100-40GB-MIG-1g.5gb"].chip == "A100"
    assert gpus["A30-MIG-1g.6gb"].chip == "A30"
    assert all(sum((gpu.chip or gpu.name) == chip for gpu in gpus.values()) > 1 or chip not in gpus for chip in chips)


@pytest.mark.parametrize("kept", ["vcpus.csv", "networks.csv"])
def test_tables_of_hosts_write_names_as_the_price_list_does(kept: str) -> None:
    """Else nobody finds them: `n1-standard-4+1xT4` beside `n1-standard-4-1xT4`."""
    priced = {instance.name for instance in load_catalog().instances}
    plain = {re.sub(r"\W", "", name): name for name in priced}
    names = {row["instance"] for row in table(DATA / kept)}
    assert names & priced
    assert not {name: plain[re.sub(r"\W", "", name)] for name in names - priced if re.sub(r"\W", "", name) in plain}
