"""What someone wrote or asked for cannot be used. Every package says so with a kind of this error."""

from collections.abc import Callable


class InputError(ValueError):
    """One line for a person: the place, the value, the rule and the remedy. Commands end with exit code 2.

    `on_command_line`: the same as a command says it, where that names an option; else empty.
    """

    on_command_line = ""

    def __init__(self, *said: object, on_command_line: str = "") -> None:
        super().__init__(*said)
        self.on_command_line = on_command_line


class DeploymentError(InputError):
    """A deployment that cannot exist; the text names the place, the value, the rule and the remedy."""


def wrong_argument(
    name: str, value: object, rule: str, remedy: str = "", kind: Callable[..., InputError] = InputError
) -> InputError:
    """`lose 4: must be from 0 to 3. Write e.g. 1.` of a call, `--lose 4: ...` on the command line."""
    text = f"{name} {value}: {rule}. {remedy}".rstrip()
    return kind(text, on_command_line=f"--{text}")
