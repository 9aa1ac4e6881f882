"""What is proposed for a name that is not known."""

from qmlir.errors import near_misses

PASSES = ["canonicalize", "cse", "dce", "quantize", "quantize-bias", "quantize-ops", *(f"other-{n}" for n in range(9))]


def test_the_nearest_is_named() -> None:
    assert near_misses("canonicalise", PASSES) == "did you mean canonicalize?"
    assert near_misses("quantise", PASSES, prefix="--") == "did you mean --quantize?"


def test_a_beginning_is_near() -> None:
    assert near_misses("quantize-", PASSES) == "did you mean quantize or quantize-ops or quantize-bias?"


def test_a_short_list_is_named_whole_and_a_long_one_not_at_all() -> None:
    assert near_misses("zzz", ["a", "b"]) == "known: a, b"
    assert near_misses("zzz", PASSES) is None
    assert near_misses("zzz", []) is None
