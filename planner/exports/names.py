"""Names that other programs accept: no two become one, and the same names always become the same."""

import re
from collections.abc import Callable, Iterable

DNS_MAX = 50
"""Labels of DNS may have 63 characters; Kubernetes adds some of its own to the names of pods."""
FILE_MAX = 120


def dns_names(names: Iterable[str]) -> dict[str, str]:
    """Each as a DNS-1035 label, which is a DNS-1123 label too: `ResNet_50 v2` is `resnet-50-v2`, `3d` is `x3d`."""
    return unique(names, dns_name, DNS_MAX, "-")


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Each as the name of a folder and as a part of a URL, on every system."""
    return unique(names, file_name, FILE_MAX, "_")


def dns_name(name: str) -> str:
    """Small letters, digits and `-`, starting with a letter."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return plain if re.match("[a-z]", plain) else f"x{plain}"


def file_name(name: str) -> str:
    """Letters, digits, `.`, `_` and `-`, starting with a letter or a digit."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")
    return plain if re.match("[A-Za-z0-9]", plain) else f"x{plain}"


def unique(names: Iterable[str], valid: Callable[[str], str], longest: int, joint: str) -> dict[str, str]:
    """A valid name for each; where two would be alike (small and large letters count as one), the later is numbered."""
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        stem, number = valid(name)[:longest].rstrip("-._"), 1
        candidate = stem
        while candidate.lower() in taken:
            number += 1
            candidate = f"{stem}{joint}{number}"
        taken.add(candidate.lower())
        chosen[name] = candidate
    return chosen
