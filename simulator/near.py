"""Near names: what a misspelt word may have meant. Nothing, where it is more likely the name of another."""

import re
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher, get_close_matches
from unicodedata import combining, normalize

SURE = 0.75
"""Likeness from which a name may be a misspelt one: `A2000` and `H200` have 0.67, `bert_large` and `bert_base` 0.71."""
LIKE = 0.66
"""Likeness from which a word may be a misspelt one: `asw` and `aws` have 0.67, `nowhere` and `answer` 0.62."""
SHOWN_MAX = 4
LISTED_MAX = 8
"""Most names that an error lists in full."""
DIGITS = str.maketrans("ol", "01")
"""Letters that look like digits, between digits."""


def in_any_case(word: str, known: Iterable[str]) -> str:
    """The known name that is the same but for upper and lower case, `T4` for `t4`; else the word itself."""
    return next((name for name in known if name.lower() == word.lower()), word)


def in_any_spelling(word: str, known: Iterable[str]) -> str:
    """The same where only marks between its parts differ besides, `bert_base` for `BERT-base`; else the word itself."""
    return next((name for name in known if in_letters(name) == in_letters(word)), word)


def near_names(word: str, known: Iterable[str]) -> list[str]:
    """The known names that a person may have meant, the likeliest first; upper and lower case are alike.

    A number is part of a name: `yolov8` is no misspelt `yolov3`, but `resnet5` may be `resnet50`, and `A100` one of
    `A100-40GB` and `A100-80GB`. Two neighbours may be swapped, `vit_b_61`, and of three digits and more one may be
    mistyped: `H201`.
    """
    plain = {in_letters(name): name for name in known}
    asked = re.sub(r"(?<=\d)[ol]+(?=\d)", lambda found: found[0].translate(DIGITS), _without_accents(word))
    if not asked:
        return []
    near = [asked] if asked in plain else _begun_by(asked, plain) or _misspelt(asked, plain)
    return [plain[key] for key in near]


def known_ones(word: str, known: Collection[str], listing: str) -> str:
    """` Known: T4, V100.`; of many the few most like the word, how many more there are, and what lists all."""
    if len(known) <= LISTED_MAX:
        return f" Known: {', '.join(known)}."
    asked = _without_accents(word)

    def unlike(name: str) -> tuple[bool, float]:
        begins = _one_begins_the_other(asked, in_letters(name))
        return not begins, -SequenceMatcher(None, asked, in_letters(name)).ratio()

    alike = sorted(known, key=unlike)
    return f" Known: {', '.join(alike[:SHOWN_MAX])} and {len(known) - SHOWN_MAX} more: {listing}."


def _begun_by(asked: str, known: Iterable[str]) -> list[str]:
    """What goes on where `asked` ends; nothing where that is too much to choose from."""
    longer = sorted(key for key in known if key.startswith(asked))
    return longer if len(asked) > 1 and len(longer) <= SHOWN_MAX else []


def _misspelt(asked: str, known: Iterable[str]) -> list[str]:
    """Those most alike, all that are so equally."""
    numbers = _numbers(asked)
    alike = [key for key in known if _one_begins_the_other(numbers, _numbers(key)) or _one_off(numbers, _numbers(key))]
    near = get_close_matches(asked, alike, n=SHOWN_MAX, cutoff=SURE)
    likeness = [SequenceMatcher(None, key, asked).ratio() for key in near]
    return sorted(key for key, ratio in zip(near, likeness, strict=True) if ratio == likeness[0])


def spaced(name: str) -> str:
    """` A name has no spaces.` of a name that has; empty of others."""
    return " A name has no spaces." if re.search(r"\S\s+\S", name) else ""


def in_letters(name: str) -> str:
    """A name without what spellings differ by: `resnet50` of `ResNet-50`."""
    return re.sub(r"[\s_.-]", "", name.lower())


def _without_accents(name: str) -> str:
    """The same without accents, which a person may mean and no name has: `resnet50` of `résnet50`."""
    return in_letters("".join(c for c in normalize("NFKD", name) if not combining(c)))


def _numbers(name: str) -> str:
    return "".join(re.findall(r"\d", name))


def _one_off(a: str, b: str) -> bool:
    """One digit of three or more is another, or two neighbours are swapped: `H201` for `H200`, `82_10` for `28_10`."""
    if len(a) != len(b):
        return False
    off = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    swapped = len(off) == 2 and off[1] == off[0] + 1 and sorted(a) == sorted(b)
    return swapped or (len(off) == 1 and len(a) >= 3)


def _one_begins_the_other(a: str, b: str) -> bool:
    return bool(a) == bool(b) and (a.startswith(b) or b.startswith(a))
