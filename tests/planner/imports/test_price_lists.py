"""Price lists of others, by file and from a server, become a prices.csv that plans take; kinds of GPU are added.

Lists are written by hand in the forms that their makers publish, a few lines each.
"""

import csv
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.commands import planner

from planner.catalog.catalog import Catalog, load_catalog
from planner.catalog.sold import Price
from planner.model.choices import PriceKind, PriceListFormat

SKYPILOT = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Region,SpotPrice,Price,Zone,GpuInfo
g4dn.xlarge,T4,1.0,4.0,16.0,us-east-1,0.21,0.55,us-east-1a,"{'Gpus': [{'Name': 'T4'}]}"
g4dn.xlarge,T4,1.0,4.0,16.0,us-east-1,0.25,0.55,us-east-1b,"{'Gpus': [{'Name': 'T4'}]}"
p4de.24xlarge,A100-80GB,8.0,96.0,1152.0,us-east-1,,40.96,us-east-1a,
inf2.xlarge,Inferentia2,1.0,4.0,16.0,us-east-1,,0.76,us-east-1a,
m5.large,,,2.0,8.0,us-east-1,0.03,0.096,us-east-1a,
"""
GPUHUNT = """instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags
gpu_1x_a10,us-east,0.75,30,200,1,A10,24.0,False,,nvidia,
gpu_8x_a100,us-east,14.32,240,1800,8,A100,80.0,False,,nvidia,
gpu_1x_a10,us-east,0.35,30,200,1,A10,24.0,True,,nvidia,
cpu_4x,us-east,0.08,4,16,0,,,False,,,
"""
PLAIN = "provider,region,instance,gpu,gpu_count,usd_per_hour,price_kind\nhoster,berlin,box,T4,2,1.10,on-demand\n"
OURS = (
    "provider,region,instance,gpu,gpu_count,host_memory_gb,status,price_kind,usd_per_hour_low,usd_per_hour_high,as_of,"
    "source,note\n"
    "hoster,berlin,box,T4,1,,active,on-demand,0.5,0.5,{},a,\n"
    "hoster,berlin,box,T4,1,,active,on-demand,0.9,0.9,{},b,\n"
)
AWS = {
    "offerCode": "AmazonEC2",
    "products": {
        sku: {
            "attributes": {
                "instanceType": name,
                "regionCode": "eu-west-1",
                "operatingSystem": system,
                "tenancy": "Shared",
                "preInstalledSw": "NA",
                "capacitystatus": "Used",
                "gpu": gpus,
                "memory": "16 GiB",
            }
        }
        for sku, name, system, gpus in (
            ("A", "g4dn.xlarge", "Linux", "1"),
            ("B", "g4dn.xlarge", "Windows", "1"),
            ("C", "g4dn.8xlarge", "Linux", "1"),  # its family is known, and the number of its GPUs said
            ("D", "q9.large", "Linux", "2"),
        )
    },
    "terms": {
        "OnDemand": {
            sku: {"t": {"priceDimensions": {"d": {"unit": "Hrs", "pricePerUnit": {"USD": usd}}}}}
            for sku, usd in (("A", "0.587"), ("B", "0.9"), ("C", "2.43"), ("D", "3"))
        },
        "Reserved": {
            "A": {
                "t": {
                    "termAttributes": {
                        "LeaseContractLength": "1yr",
                        "OfferingClass": "standard",
                        "PurchaseOption": "No Upfront",
                    },
                    "priceDimensions": {"d": {"unit": "Hrs", "pricePerUnit": {"USD": "0.37"}}},
                }
            }
        },
    },
}
NC4AS = {
    "currencyCode": "USD",
    "retailPrice": 0.6,
    "armRegionName": "uksouth",
    "armSkuName": "Standard_NC4as_T4_v3",
    "skuName": "NC4as T4 v3",
    "productName": "Virtual Machines NCasT4 v3 Series",
    "type": "Consumption",
}
AZURE = {
    "Items": [
        NC4AS,
        {**NC4AS, "productName": "Virtual Machines NCasT4 v3 Series Windows", "retailPrice": 9},
        {**NC4AS, "skuName": "NC4as T4 v3 Spot", "retailPrice": 0.1},
        {**NC4AS, "skuName": "NC4as T4 v3 Low Priority", "retailPrice": 0.2},
        {**NC4AS, "type": "DevTestConsumption", "retailPrice": 0.7},  # the dearest would count
        {**NC4AS, "type": "Reservation", "reservationTerm": "1 Year", "retailPrice": 2628},
    ]
}
INFRACOST = {
    "projects": [
        {
            "breakdown": {
                "resources": [
                    {
                        "name": "aws_instance.box",
                        "costComponents": [
                            {
                                "name": "Instance usage (Linux/UNIX, on-demand, g4dn.xlarge)",
                                "unit": "hours",
                                "price": "0.587",
                            }
                        ],
                    }
                ]
            }
        }
    ]
}


def imported(tmp_path: Path, name: str, content: object, *words: object) -> Catalog:
    """The catalog with a list imported."""
    (file := tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    code, _, said = planner("prices", "import", file, "--out", tmp_path / "mine", "--as-of", "2026-07-20", *words)
    assert (code, said) == (0, "")
    return load_catalog([tmp_path / "mine"])


def prices(known: Catalog, provider: str, region: str, instance: str) -> dict[PriceKind, Price]:
    [found] = [i for i in known.instances if (i.provider, i.region, i.name) == (provider, region, instance)]
    return dict(found.prices)


@pytest.mark.parametrize(("usd", "doubted"), [(0.7, False), (25.0, True), (0.01, True)])
def test_a_price_far_from_all_others_of_its_kind_is_taken_and_doubted_in_a_line(
    tmp_path: Path, usd: float, doubted: bool
) -> None:
    file = tmp_path / "here.csv"
    file.write_text(f"instance,gpu,gpu_count,usd_per_hour\nodd,T4,1,{usd}\n")
    code, _, err = planner("prices", "import", file, "--out", tmp_path / "catalog", "--as-of", "2026-07-01")
    assert code == 0
    assert load_catalog([tmp_path / "catalog"]).instances
    assert err.startswith(f"Doubt: odd: ${usd:.4g}/h for each T4, where the middle of all others is $") is doubted
    assert err.count("\n") == doubted


@pytest.mark.parametrize(("second", "said"), [("0", "1 price of $0."), ("$0.00", "1 price of $0."), ("0.6", "")])
def test_a_price_of_0_is_left_out_and_said(tmp_path: Path, second: str, said: str) -> None:
    file = tmp_path / "here.csv"
    file.write_text(f"instance,gpu,gpu_count,usd_per_hour\none,T4,1,0.5\nother,T4,1,{second}\n")
    code, shown, _ = planner("prices", "import", file, "--out", tmp_path / "catalog")
    assert code == 0
    assert ("Left out, for lists have it where nothing is sold so" in shown) is bool(said)
    assert said in shown


@pytest.mark.parametrize("days", [("2026-01-01", "2026-01-02"), ("2026-01-02", "2026-01-01")])
def test_of_several_days_the_newest_price_counts_with_its_date(tmp_path: Path, days: tuple[str, str]) -> None:
    """The first row says 0.5, the second 0.9; a history in the plain form likewise."""
    newest = max(zip(days, (0.5, 0.9), strict=True))
    header = "provider,region,instance,gpu,gpu_count,usd_per_hour,as_of\n"
    history = header + "".join(
        f"hoster,berlin,box,T4,1,{usd},{day}\n" for day, usd in zip(days, (0.5, 0.9), strict=True)
    )
    for content in (OURS.format(*days), history):
        known = imported(tmp_path, "own.csv", content)
        price = prices(known, "hoster", "berlin", "box")[PriceKind.ON_DEMAND]
        assert (price.as_of, price.usd_per_hour) == newest


@pytest.mark.parametrize(("day", "newest"), [("2025-01-01", 0.9), ("2026-08-01", 0.5)])
def test_a_row_without_a_day_is_of_the_lists(tmp_path: Path, day: str, newest: float) -> None:
    """The first row states its day, the second has that of `--as-of`, 2026-07-20."""
    header = "provider,region,instance,gpu,gpu_count,usd_per_hour,as_of\n"
    known = imported(tmp_path, "own.csv", f"{header}hoster,berlin,box,T4,1,0.5,{day}\nhoster,berlin,box,T4,1,0.9,\n")
    assert prices(known, "hoster", "berlin", "box")[PriceKind.ON_DEMAND].usd_per_hour == newest


def rows(file: Path) -> list[tuple[str, ...]]:
    """Rows of a prices.csv, figures in one form."""
    with file.open(newline="") as lines:
        return sorted(tuple(in_one_form(text) for text in row.values()) for row in csv.DictReader(lines))


def in_one_form(text: str) -> str:
    with suppress(ValueError):
        return f"{float(text):.6g}"
    return text


SAMPLES: dict[PriceListFormat, object] = {
    PriceListFormat.SKYPILOT: SKYPILOT,
    PriceListFormat.GPUHUNT: GPUHUNT,
    PriceListFormat.AWS: AWS,
    PriceListFormat.AZURE: AZURE,
    PriceListFormat.INFRACOST: INFRACOST,
    PriceListFormat.CSV: PLAIN,
    PriceListFormat.PRICES: OURS.format("2026-01-01", "2026-01-02"),
}
"""One of each form: a new form brings its own."""


@pytest.mark.parametrize("form", PriceListFormat)
def test_every_form_of_list_is_known_by_what_is_in_it(tmp_path: Path, form: PriceListFormat) -> None:
    made: list[str] = []
    for words in ([], ["--format", form]):
        (here := tmp_path / f"{len(words)}").mkdir()
        imported(here, "list", SAMPLES[form], "--provider", "aws", *words)
        made.append((here / "mine" / "prices.csv").read_text())
    assert made[0] == made[1]
    assert made[0].count("\n") > 1


def test_skypilot_has_spot_by_zone(tmp_path: Path) -> None:
    known = imported(tmp_path, "aws.csv", SKYPILOT)
    found = prices(known, "aws", "us-east-1", "g4dn.xlarge")
    assert found[PriceKind.ON_DEMAND].usd_per_hour == 0.55
    assert found[PriceKind.SPOT].usd_per_hour_range == (0.21, 0.25)
    assert found[PriceKind.ON_DEMAND].as_of == "2026-07-20"
    [large] = [i for i in known.instances if i.name == "p4de.24xlarge" and i.region == "us-east-1"]
    assert (large.gpu, large.gpu_count) == ("A100-80GB", 8)
    assert large.host_memory_bytes == pytest.approx(1152 * 2**30, rel=1e-3)


def test_of_zones_at_several_prices_the_dearest_counts_and_is_named(tmp_path: Path) -> None:
    dearer = SKYPILOT.replace("0.25,0.55", "0.25,0.60")
    (file := tmp_path / "aws.csv").write_text(dearer)
    code, shown, said = planner("prices", "import", file, "--out", tmp_path / "mine")
    assert (code, said) == (0, "")
    assert "the dearest counts: g4dn.xlarge, aws us-east-1, on-demand: $0.55 to $0.6/h." in " ".join(shown.split())
    found = prices(load_catalog([tmp_path / "mine"]), "aws", "us-east-1", "g4dn.xlarge")
    assert found[PriceKind.ON_DEMAND].usd_per_hour == 0.6
    assert found[PriceKind.SPOT].usd_per_hour_range == (0.21, 0.25)
    file.write_text(SKYPILOT)
    code, shown, _ = planner("prices", "import", file, "--out", tmp_path / "other")
    assert code == 0
    assert "dearest" not in shown  # one price in all zones


ZONE_A = "us-east-1,{},us-east-1a,\"{{'Gpus': [{{'Name': 'T4'}}]}}\""


@pytest.mark.parametrize(
    ("text", "row", "refused"),
    [
        (SKYPILOT, f"g4dn.xlarge,T4,1.0,4.0,16.0,{ZONE_A.format('0.21,0.60')}", "7: g4dn.xlarge costs 0.55 in another"),
        (SKYPILOT, f"g4dn.xlarge,T4,1.0,4.0,16.0,{ZONE_A.format('0.25,0.55')}", "7: g4dn.xlarge costs 0.21 in another"),
        (
            GPUHUNT,
            "gpu_1x_a10,us-east,0.80,30,200,1,A10,24.0,False,,nvidia,",
            "6: gpu_1x_a10 costs 0.75 in another",
        ),
        (PLAIN, "hoster,berlin,box,L4,2,1.10,spot", "3: box of hoster berlin has 2 x T4 in another row, and 2 x L4"),
    ],
)
def test_rows_that_differ_in_price_alone_are_refused(tmp_path: Path, text: str, row: str, refused: str) -> None:
    (file := tmp_path / "list.csv").write_text(f"{text}{row}\n")
    code, _, said = planner("prices", "import", file, "--out", tmp_path / "mine")
    assert code == 2
    assert f"list.csv:{refused}" in said
    assert "Leave one of them out" in said
    assert not (tmp_path / "mine").exists()


def test_machines_of_one_name_with_other_gpus_have_names_of_their_own(tmp_path: Path) -> None:
    """GCP's, to which GPUs are attached, as gpuhunt lists them."""
    head = GPUHUNT.partition("\n")[0]
    rows = (("T4", 1, 16, 0.54), ("T4", 2, 16, 0.89), ("V100", 1, 16, 2.67))
    text = "".join(f"n1-standard-4,us-central1-a,{usd},4,15,{n},{gpu},{gb},False,,,\n" for gpu, n, gb, usd in rows)
    known = imported(tmp_path, "gcp.csv", f"{head}\n{text}")
    found = {i.name: (i.gpu, i.gpu_count) for i in known.instances if i.region == "us-central1-a"}
    assert found == {
        "n1-standard-4-1xT4": ("T4", 1),
        "n1-standard-4-2xT4": ("T4", 2),
        "n1-standard-4-1xV100": ("V100", 1),
    }


@pytest.mark.parametrize("others", ["", "4xA100,A100,4,4,16,us-west-1,,4.0,b,\n"])
def test_the_name_of_a_machine_does_not_depend_on_other_regions(tmp_path: Path, others: str) -> None:
    head = SKYPILOT.partition("\n")[0]
    text = f"{head}\n4xA100,A100-80GB,4,4,16,us-east-1,,5.0,a,\n{others}"
    known = imported(tmp_path, "hoster.csv", text)
    found = {(i.region, i.name): i.gpu for i in known.instances if i.provider == "hoster"}
    west = {("us-west-1", "4xA100"): "A100-40GB"} if others else {}
    assert found == {("us-east-1", "4xA100"): "A100-80GB"} | west


DATED = "provider,region,instance,gpu,gpu_count,usd_per_hour,as_of\nhoster,berlin,box,T4,2,{},{}\n"


@pytest.mark.parametrize(
    ("first", "second", "usd", "said"),
    [
        (("1.10", "2026-05-01"), ("1.30", "2026-03-01"), 1.10, ""),
        (("1.30", "2026-05-01"), ("1.10", "2026-05-01"), 1.30, "$1.1 to $1.3/h"),
    ],
)
def test_of_several_lists_the_newest_price_counts_and_of_one_day_the_dearer(
    tmp_path: Path, first: tuple[str, str], second: tuple[str, str], usd: float, said: str
) -> None:
    for name, row in (("a.csv", first), ("b.csv", second)):
        (tmp_path / name).write_text(DATED.format(*row))
    code, shown, _ = planner("prices", "import", tmp_path / "a.csv", tmp_path / "b.csv", "--out", tmp_path / "mine")
    assert code == 0
    found = prices(load_catalog([tmp_path / "mine"]), "hoster", "berlin", "box")
    assert found[PriceKind.ON_DEMAND].usd_per_hour == usd
    assert ("dearest" in shown) == bool(said)
    assert said in " ".join(shown.split())


def test_gpuhunt_tells_gpus_by_memory(tmp_path: Path) -> None:
    known = imported(tmp_path, "lambdalabs.csv", GPUHUNT)
    assert {i.gpu for i in known.instances if i.provider == "lambdalabs"} == {"A10", "A100-80GB"}
    assert prices(known, "lambdalabs", "us-east", "gpu_1x_a10")[PriceKind.SPOT].usd_per_hour == 0.35


def test_aws_counts_linux_and_knows_families(tmp_path: Path) -> None:
    known = imported(tmp_path, "index.json", AWS)
    found = prices(known, "aws", "eu-west-1", "g4dn.xlarge")
    assert {kind: price.usd_per_hour for kind, price in found.items()} == {
        PriceKind.ON_DEMAND: 0.587,
        PriceKind.RESERVED_1Y: 0.37,
    }
    assert prices(known, "aws", "eu-west-1", "g4dn.8xlarge")[PriceKind.ON_DEMAND].usd_per_hour == 2.43


def test_azure_divides_reservations_by_their_hours(tmp_path: Path) -> None:
    found = prices(imported(tmp_path, "prices.json", AZURE), "azure", "uksouth", "NC4as_T4_v3")
    assert {kind: price.usd_per_hour for kind, price in found.items()} == {
        PriceKind.ON_DEMAND: 0.6,
        PriceKind.SPOT: 0.1,
        PriceKind.RESERVED_1Y: pytest.approx(2628 / 8760),
    }


def test_infracost_and_plain(tmp_path: Path) -> None:
    known = imported(tmp_path, "infracost.json", INFRACOST, "--region", "eu-west-1")
    assert prices(known, "aws", "eu-west-1", "g4dn.xlarge")[PriceKind.ON_DEMAND].usd_per_hour == 0.587
    known = imported(tmp_path, "own.csv", PLAIN)  # beside what was imported before
    assert prices(known, "hoster", "berlin", "box")[PriceKind.ON_DEMAND].usd_per_hour == 1.10
    assert prices(known, "aws", "eu-west-1", "g4dn.xlarge")[PriceKind.ON_DEMAND].usd_per_hour == 0.587


def test_plans_pay_what_was_imported(tmp_path: Path) -> None:
    """Rows of vms.csv of Lambda and Vast in anycloud-sh/catalog on GitHub: SkyPilot's form, two orders of columns."""
    folder = tmp_path / "mine"
    lists = {
        "lambda": "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
        "cpu_4x_generalx,,,4.0,16.0,0.2,europe-central-1,,\n"
        "gpu_8x_a10,A10,8.0,240.0,1600.0,8.88,europe-central-1,\"{'TotalGpuMemoryInMiB': 24576}\",\n"  # that of each
        "gpu_1x_a10,A10,1.0,30.0,200.0,1.29,europe-central-1,\"{'TotalGpuMemoryInMiB': 24576}\",\n",
        "vast": "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region\n"
        '1x-RTX_4090-32-65536,RTX4090,1,32,64.0,"{\'TotalGpuMemoryInMiB\': 24564}",0.40,0.00,"Maryland, US, NA"\n',
    }
    for provider, text in lists.items():
        (tmp_path / provider).mkdir()
        (file := tmp_path / provider / "vms.csv").write_text(text)
        code, _, said = planner("prices", "import", file, "--out", folder)
        assert code == 0, said
    (scenario := tmp_path / "s.yaml").write_text(
        "models: [{name: resnet50, slo: {latency: 200 ms, attainment: 95 %}}]\n"
        "streams: [{model: resnet50, rate: 20/s}]\n"
        "buy: {gpus: [A10, RTX4090], instances: [gpu_1x_a10, 1x-RTX_4090-32-65536]}\nhorizon: 5 s\n"
    )
    code, shown, said = planner("plan", scenario, "--catalog", folder, "--format", "json", "-q")
    assert code == 0, said
    best = json.loads(shown)["recommendation"]
    assert [one["provider"] for one in best["instances"]] == ["vast"]
    assert best["cost_usd_per_hour"] == pytest.approx(0.40)


@pytest.mark.parametrize(
    ("name", "count", "mib", "kind"),
    [
        ("A100", 1, 81920, "A100-80GB"),
        ("A100", 2, 163840, "A100-80GB"),
        ("A100", 1, 40960, "A100-40GB"),
        ("H100", 8, 652472, "H100"),
        ("H100", 1, 95830, None),  # an H100 NVL
        ("T4", 1, 15360, "T4"),
        ("H100", 8, 81559, "H100"),  # that of each, as Lambda's list has it
        ("T4", 1, 0, "T4"),  # not said
    ],
)
def test_skypilot_tells_gpus_by_memory_too(tmp_path: Path, name: str, count: int, mib: int, kind: str | None) -> None:
    """Memory as Vast's vms.csv in anycloud-sh/catalog on GitHub has it, which names every A100 alike."""
    info = f"\"{{'Gpus': [{{'Name': '{name}', 'Count': {count}}}], 'TotalGpuMemoryInMiB': {mib}}}\""
    (file := tmp_path / "vms.csv").write_text(
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region\n"
        f"box,{name},{count},32,64.0,{info},0.93,0.00,eu\n"
    )
    code, _, said = planner("prices", "import", file, "--provider", "vast", "--out", tmp_path / "mine")
    assert (code, f"unknown: {name}" in said) == ((2, True) if kind is None else (0, False))
    if kind:
        (found,) = [i for i in load_catalog([tmp_path / "mine"]).instances if i.provider == "vast" and i.name == "box"]
        assert (found.gpu, found.gpu_count) == (kind, count)


def test_imported_again_nothing_changes(tmp_path: Path) -> None:
    imported(tmp_path, "aws.csv", SKYPILOT)
    before = (tmp_path / "mine" / "prices.csv").read_bytes()
    code, shown, _ = planner(
        "prices", "import", tmp_path / "aws.csv", "--out", tmp_path / "mine", "--as-of", "2026-07-20"
    )
    assert code == 0
    assert not [line for line in shown.splitlines() if line.startswith(("+", "~"))]
    assert (tmp_path / "mine" / "prices.csv").read_bytes() == before


def test_a_catalogs_own_prices_come_back_as_they_were(tmp_path: Path) -> None:
    shipped = Path("planner/catalog/data/prices.csv")
    code, _, said = planner("prices", "import", shipped, "--out", tmp_path, "--as-of", "2026-11-25")
    assert code == 0, said
    was, now = (rows(file) for file in (shipped, tmp_path / "prices.csv"))
    assert now == was


def test_rows_of_a_plain_list_may_have_days_of_their_own(tmp_path: Path) -> None:
    header = "provider,region,instance,gpu,gpu_count,usd_per_hour,as_of\n"
    text = f"{header}hoster,berlin,old,T4,1,0.50,2024-03-01\nhoster,berlin,new,T4,1,0.60,\n"
    known = imported(tmp_path, "own.csv", text)
    days = [prices(known, "hoster", "berlin", name)[PriceKind.ON_DEMAND].as_of for name in ("old", "new")]
    assert days == ["2024-03-01", "2026-07-20"]


@pytest.mark.parametrize(
    ("content", "words", "wrong"),
    [
        (PLAIN, ("--as-of", "2090-01-01"), "`2090-01-01` is in the future"),
        (" \n", (), "is empty"),
        (f"{PLAIN}hoster,berlin,box,T4,2,1.30,on-demand\n", (), "box costs 1.1 in another row, and 1.3 here"),
        (OURS.format("2026-01-01", "2099-01-01"), (), "prices.csv:3: `2099-01-01` is in the future"),
        (OURS.format("2026-01-01", "2026-01-01"), (), "box costs 0.5 in another row, and 0.9 here"),
    ],
)
def test_what_no_list_of_prices_says_is_refused(
    tmp_path: Path, content: str, words: tuple[str, ...], wrong: str
) -> None:
    (file := tmp_path / "prices.csv").write_text(content)
    code, _, said = planner("prices", "import", file, "--provider", "hoster", *words, "--out", tmp_path / "mine")
    assert (code, wrong in " ".join(said.split())) == (2, True)


@pytest.mark.parametrize(
    ("content", "form", "wrong"),
    [
        (PLAIN, "aws", "is no JSON, and lists of aws are"),
        (json.dumps(AWS), "skypilot", "is JSON, and lists of skypilot are tables"),
        (json.dumps(AWS), "azure", "has no `Items`, as lists of azure have"),
    ],
)
def test_a_list_of_another_format_than_is_said_is_refused(tmp_path: Path, content: str, form: str, wrong: str) -> None:
    (file := tmp_path / "list").write_text(content)
    code, _, said = planner("prices", "import", file, "--format", form, "--out", tmp_path / "mine")
    assert (code, f"{file}: {wrong}" in " ".join(said.split())) == (2, True)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "instance,gpu,gpu_count,usd_per_hour,as_of\nbox,T4,1,1,yesterday\n",
        "a,b\n1,2\n",
        "instance,gpu,gpu_count,usd_per_hour\nbox,T4,2\n",
        "instance,gpu,gpu_count,usd_per_hour\nbox,T4,2,nan\n",
        "instance,gpu,gpu_count,usd_per_hour\nbox,T4,2,-1\n",
        "instance,gpu,gpu_count,usd_per_hour\nbox,T4,two,1\n",
        "instance,gpu,gpu_count,usd_per_hour\nbox,T4,nan,1\n",
        "instance,gpu,gpu_count,usd_per_hour\nbox,Voodoo,1,1\n",
        "instance,gpu,gpu_count,usd_per_hour,price_kind\nbox,T4,1,1,free\n",
        'instance,gpu,gpu_count,usd_per_hour\nbox,"T4,1,1\n',
        "{",
        "[]",
        '{"Items": 3}',
        '{"Items": [3]}',
        '{"products": {"A": 1}, "terms": {}}',
        '{"projects": [{"breakdown": {"resources": [{"costComponents": 4}]}}]}',
        "\x00\x01",
        f"{'a' * 140_000},b\n1,2\n",
    ],
)
def test_damaged_lists_are_refused(tmp_path: Path, content: str) -> None:
    (file := tmp_path / "list.csv").write_text(content)
    code, shown, said = planner("prices", "import", file, "--out", tmp_path / "mine")
    assert (code, shown, said.count("\n"), (tmp_path / "mine").exists()) == (2, "", 1, False), said


def test_own_is_no_provider(tmp_path: Path) -> None:
    """By which a plan knows machines that are not rented."""
    (file := tmp_path / "list.csv").write_text(PLAIN.replace("hoster", "own"))
    code, shown, said = planner("prices", "import", file, "--out", tmp_path / "b")
    assert (code, shown, said.count("\n"), (tmp_path / "b").exists()) == (2, "", 1, False), said
    assert "names the provider `own`, which means machines of your own" in said


@pytest.mark.parametrize("price", ["cheap", "nan", "", "0", "-1"])
def test_a_price_that_was_there_and_is_none_is_told(tmp_path: Path, price: str) -> None:
    imported(tmp_path, "own.csv", PLAIN)
    (old := tmp_path / "mine" / "prices.csv").write_text(
        damaged := old.read_text().replace(",1.1,1.1,", f",1.1,{price},")
    )
    assert f",1.1,{price}," in damaged
    code, shown, said = planner("prices", "import", tmp_path / "own.csv", "--out", tmp_path / "mine")
    assert (code, shown, said.count("\n"), old.read_text()) == (2, "", 1, damaged)
    assert said.startswith(f"{old}:2: ")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a" * 140_000])
def test_a_catalogs_prices_that_are_no_table_are_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "prices.csv").write_bytes(content)
    code, _, said = planner("gpus", "show", "--catalog", tmp_path)
    assert (code, said.count("\n")) == (2, 1), said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (PLAIN, ("--provider", "???")),
        (PLAIN, ("--region", "???")),
        (PLAIN.replace("hoster", "???"), ()),
        (PLAIN.replace("box", "???"), ()),
    ],
)
def test_names_without_a_letter_are_refused(tmp_path: Path, content: str, words: tuple[str, ...]) -> None:
    (file := tmp_path / "list.csv").write_text(content)
    code, shown, said = planner("prices", "import", file, "--out", tmp_path / "mine", *words)
    assert (code, shown, said.count("\n"), (tmp_path / "mine").exists()) == (2, "", 1, False), said


class Lists(BaseHTTPRequestHandler):
    """A server of price lists."""

    def do_GET(self) -> None:
        found = self.path == "/aws/vms.csv"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(SKYPILOT.encode() if found else b"")

    def log_message(self, *words: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def server() -> Iterator[str]:
    """Its address."""
    served = ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    thread.join()


def test_refresh_fetches_and_says_what_changed(tmp_path: Path, server: str) -> None:
    words = ("prices", "refresh", "aws", "--out", tmp_path / "mine")
    code, shown, said = planner(*words, "--url", f"{server}/aws/vms.csv")
    assert (code, said) == (0, "")
    changed = [line for line in shown.splitlines() if "g4dn.xlarge" in line and "on-demand" in line]
    assert len(changed) == 1
    assert "0.526" in changed[0]  # what is shipped
    assert (
        prices(load_catalog([tmp_path / "mine"]), "aws", "us-east-1", "g4dn.xlarge")[PriceKind.ON_DEMAND].usd_per_hour
        == 0.55
    )
    for url in (f"{server}/nowhere", "http://127.0.0.1:1/x", "file:///etc/hostname", "http://", "https://a b/"):
        code, _, said = planner("prices", "refresh", "aws", "--out", tmp_path / "none", "--url", url)
        assert (code, said.count("\n"), (tmp_path / "none").exists()) == (2, 1, False)


KIND = {
    "memory-gb": 11,
    "memory-bandwidth-gb-per-s": 616,
    "fp32-tflops": 13.4,
    "tensor-fp16-tflops": 53.8,
    "tdp-w": 250,
    "idle-w": 20,
    "pcie-gb-per-s": 16,
    "source": "data sheet",
}


def add(kind: str, out: Path, **changed: object) -> tuple[int, str, str]:
    options = KIND | {name.replace("_", "-"): value for name, value in changed.items()}
    return planner(
        "gpus", "add", kind, *(word for name, value in options.items() for word in (f"--{name}", value)), "--out", out
    )


def test_kinds_are_added_and_shown(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    assert add("RTX-2080-Ti", out)[0] == 0
    assert add("RTX-2070", out, memory_gb=8)[0] == 0
    known = load_catalog([out]).gpus
    assert (known["RTX-2080-Ti"].memory_bytes, known["RTX-2070"].memory_bytes) == (11e9, 8e9)
    code, shown, _ = planner("gpus", "show", "rtx-2080-ti", "--catalog", out)
    assert code == 0
    assert "616" in shown
    assert planner("gpus", "show")[0] == 0
    assert add("My-T4", out, chip="T4", decoders=2, l2_mb=4, sm_count=40, tensor_fp8_tflops=1)[0] == 0
    mine = load_catalog([out]).gpus["My-T4"]
    assert (mine.chip, mine.decoders, mine.l2_bytes, mine.sm_count, mine.tensor_fp8_flops) == ("T4", 2, 4e6, 40, 1e12)
    before = (out / "gpus.yaml").read_bytes()
    wrong = ({"memory_gb": -1}, {"idle_w": 999}, {"chip": "T44"}, {"decoders": -1}, {"l2_mb": 0})
    for kind, changed in (("T4", {}), ("RTX-2070", {}), ("a b", {}), *(("X", one) for one in wrong)):
        code, _, said = add(kind, out, **changed)
        assert (code, said.count("\n")) == (2, 1), said
    assert (out / "gpus.yaml").read_bytes() == before
    assert planner("gpus", "show", "Voodoo")[0] == 2
    for kind, way in (("cpu-intel-xeon", "profiles device --profiles DIR"), ("nvidia-foo", "gpus add --help")):
        code, _, said = planner("gpus", "show", kind)
        assert code == 2
        assert f"`{kind}` is not in the catalog." in said
        assert f"`planner {way}`" in said


def test_one_kind_is_shown_with_what_the_list_leaves_out() -> None:
    """L4 by its data sheet: 242 TFLOP/s dense at fp8, 48 MB of L2, 60 multiprocessors, capability 8.9, no NVLink."""
    _, shown, _ = planner("gpus", "show", "L4")
    titles, row = shown.partition("Besides\n")[2].splitlines()[:2]
    assert " ".join(titles.split()) == "chip fp8 TFLOP/s L2 MB SMs idle W NVLink GB/s compute capability"
    assert row.split() == ["L4", "242", "48", "60", f"{load_catalog().gpus['L4'].idle_w:g}", "-", "8.9"]


@pytest.mark.parametrize("kind", ["t4", "a100-80gb", "rtx-2070"])
def test_a_kind_is_one_whatever_its_capitals(tmp_path: Path, kind: str) -> None:
    assert add("RTX-2070", tmp_path)[0] == 0
    assert add(kind, tmp_path)[0] == 2


def test_kinds_written_by_hand_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "gpus.yaml").write_text("source: me\ngpus: {}\n")
    assert add("RTX-2070", tmp_path)[0] == 2
    assert (tmp_path / "gpus.yaml").read_text() == "source: me\ngpus: {}\n"


def test_a_note_in_a_file_of_ours_is_not_lost(tmp_path: Path) -> None:
    assert add("RTX-2070", tmp_path)[0] == 0
    noted = (tmp_path / "gpus.yaml").read_text() + "# bought in May\n"
    (tmp_path / "gpus.yaml").write_text(noted)
    assert add("RTX-2080-Ti", tmp_path)[0] == 2
    assert (tmp_path / "gpus.yaml").read_text() == noted


def test_kinds_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "gpus.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "b" / "gpus.yaml").mkdir(parents=True)
    (tmp_path / "c").write_text("a file")
    for name in "abc":
        code, _, said = add("RTX-2070", tmp_path / name)
        assert (code, said.count("\n")) == (2, 1), said
