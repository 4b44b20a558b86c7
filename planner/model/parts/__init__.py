"""Parts of a scenario: each is checked when it is made, by the rules that stand beside it."""
