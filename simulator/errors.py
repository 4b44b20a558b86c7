"""What someone wrote or asked for cannot be used. Every package says so with a kind of this error."""


class InputError(ValueError):
    """One line for a person: the place, the value, the rule and the remedy. Commands end with exit code 2."""


class DeploymentError(InputError):
    """A deployment that cannot exist; the text names the place, the value, the rule and the remedy."""
