"""Features of a processor, by which lowerings choose kernels and instructions; a pass gets them as its option."""

from qmlir.errors import OptionError

FEATURES_HELP = "processor features to use, as in LLVM: +avx2,+fma; none is portable code"
"""The help line of the option."""


def parse_features(text: str) -> frozenset[str]:
    """The features that a list in LLVM's syntax, `+avx2,-sse4a`, turns on.

    Raises:
        OptionError: An item has no sign.
    """
    items = [item.strip() for item in text.split(",") if item.strip()]
    for item in items:
        if item[0] not in "+-":
            raise OptionError("features", "must be a list of +name and -name", got=item, remedy=f"write +{item}")
    return frozenset(item[1:] for item in items if item[0] == "+")


def sums_quads(features: frozenset[str]) -> bool:
    """Whether the processor adds four products of bytes to a sum at once, exactly (vpdpbusd)."""
    return not features.isdisjoint(("avx512vnni", "avxvnni"))


def sums_byte_pairs(features: frozenset[str]) -> bool:
    """Whether the processor adds two products of bytes at once, in sums that saturate at 16 bits (vpmaddubsw)."""
    return "avx2" in features
