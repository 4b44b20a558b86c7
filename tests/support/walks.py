"""Pages that walk a reader through commands: these, the files that he saves, and what is shown of their answers."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

SAVED = re.compile(r"[Ss]ave it as `([\w.]+)`.*?^```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ planner (.*?)(?:\s+# exit (\d))?$", re.MULTILINE)
DAYS_OLD = re.compile(r"\d+\s+days\s+(old|ago)")
"""Of a price; grows by one a day."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command, as it is shown."""

    words: list[str]
    code: int
    """Its exit code."""
    answer: str
    """Some lines of what it says; empty where none are shown."""


def saved(page: str) -> dict[str, str]:
    """The files that the page asks to save, by name."""
    return dict(SAVED.findall(page))


def pictures(page: str) -> list[str]:
    """The pictures that its commands draw, by the names of their files; what else it shows is drawn elsewhere."""
    named = {word for step in steps(page) for word in step.words}
    return [name for name in re.findall(r"\]\(images/([\w.-]+)\)", page) if name in named]


def steps(page: str) -> Iterator[Step]:
    """All commands in order; an answer is that of the last one of its block."""
    for commands, answer in CONSOLE.findall(page):
        *before, last = COMMAND.findall(commands)
        for words, code in before:
            yield Step(shlex.split(words), int(code or 0), "")
        words, code = last
        yield Step(shlex.split(words), int(code or 0), answer)


def ageless(text: str) -> str:
    """The text on whatever day it was written."""
    return DAYS_OLD.sub(r"days \1", text)


def shown_anew(page: str, answer: str, out: str) -> str:
    """The page with as many lines of `out` as it shows of an older answer, from the one that begins alike."""
    if not answer:
        return page
    lines, (first, *_) = out.splitlines(), answer.split()
    begin = next((number for number, line in enumerate(lines) if line.split()[:1] == [first]), 0)
    shown = lines[begin : begin + len(answer.splitlines())]
    return page.replace(f"```text\n{answer}```", "\n".join(("```text", *shown, "```")))
