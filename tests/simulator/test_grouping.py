"""Values by what they have in common."""

from simulator.grouping import grouped


def test_keys_and_values_keep_their_order():
    found = grouped([("b", 1), ("a", 2), ("b", 1), ("b", 0)])
    assert list(found.items()) == [("b", [1, 1, 0]), ("a", [2])]
    assert grouped(()) == {}
