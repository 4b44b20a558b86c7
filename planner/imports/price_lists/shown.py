"""What price lists changed, as text."""

from collections.abc import Sequence

from planner.imports.price_lists.lists import PriceDifference, PriceImport
from planner.imports.price_lists.rows import ListedPrice
from planner.show.document import Changes, Document, Items, Section
from planner.show.terminal import terminal
from planner.units.writing import Screen, counted, names

SHOWN = 20
UNKNOWN_SHOWN = 6


def changes_text(made: PriceImport, screen: Screen) -> str:
    """`+` for prices that are new, `~` for others than before."""
    new = sum(change.old_usd_per_hour is None for change in made.changes)
    headline = (
        f"{made.path}: {counted(made.prices, 'price')}, of which {new} new and {len(made.changes) - new} changed."
    )
    shown = [_line(change) for change in made.changes[:SHOWN]]
    notes = [f"{len(made.changes) - SHOWN} more changed."] if len(made.changes) > SHOWN else []
    if made.unknown:
        listed = names(sorted(made.unknown), UNKNOWN_SHOWN)
        notes.append(f"Left out, for the catalog has no such GPU or instance: {listed}.")
    if made.free:
        notes.append(f"Left out, for lists have it where nothing is sold so: {counted(made.free, 'price')} of $0.")
    if made.ranges:
        notes.append(_dearest(made.ranges))
    notes.append(f"Plan with them: --catalog {made.path.parent}")
    sections = [Section("Changed", [Changes(shown)]), Section("", [Items(notes)])]
    return terminal(Document(name="prices", headline=headline, sections=sections), screen) + "\n"


def doubt_line(made: PriceImport) -> str:
    """Prices that are far from all others; empty where none is."""
    if not made.doubtful:
        return ""
    first, more = made.doubtful[0], len(made.doubtful) - 1
    rest = f" and {counted(more, 'more price')} are as far off" if more else ""
    usual = f"where the middle of all others is ${first.usual:.4g}"
    far = f"{first.instance}: ${first.usd_per_hour:.4g}/h for each {first.gpu}, {usual}{rest}"
    return f"Doubt: {far}; taken as it is. Is it of another unit, currency or number of GPUs?"


def _dearest(ranges: Sequence[ListedPrice]) -> str:
    """That of several prices the dearest counts, with the first as an example."""
    first, more = ranges[0], len(ranges) - 1
    what = f"{first.instance}, {first.provider} {first.region}, {first.price_kind}"
    rest = f", and {counted(more, 'more price')}" if more else ""
    both = f"${first.cheapest:.4g} to ${first.high:.4g}/h"
    return f"Rows of one machine and region differ, such as by zone, and the dearest counts: {what}: {both}{rest}."


def _line(change: PriceDifference) -> tuple[str, str]:
    what = f"{change.instance}, {change.provider} {change.region}, {change.price_kind}"
    if change.old_usd_per_hour is None:
        return "+", f"{what}: ${change.new_usd_per_hour:.4g}/h"
    relative = change.new_usd_per_hour / change.old_usd_per_hour - 1
    return "~", f"{what}: ${change.old_usd_per_hour:.4g} -> ${change.new_usd_per_hour:.4g}/h ({100 * relative:+.1f} %)"
