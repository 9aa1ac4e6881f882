"""A processor as data: what it multiplies, sums and looks up at once, and what fits its registers.

Kernels, and lowerings that choose instructions, ask these data only. They are derived once, from the features that a
pass gets as its option: each row of `UNITS` says which features it takes, and what they change. A new unit of a
processor is a row, and what asks for it. The names of processors and their features are LLVM's (backends/cpu).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from qmlir.errors import OptionError


def _parsed(text: str) -> frozenset[str]:
    """The features that a list in LLVM's syntax, `+avx2,-sse4a`, turns on.

    Raises:
        OptionError: An item has no sign.
    """
    items = [item.strip() for item in text.split(",") if item.strip()]
    for item in items:
        if item[0] not in "+-":
            raise OptionError("features", "must be a list of +name and -name", got=item, remedy=f"write +{item}")
    return frozenset(item[1:] for item in items if item[0] == "+")


@dataclass(frozen=True)
class Capabilities:
    """What a processor does at once. The defaults are those of a processor of which nothing is known.

    features         LLVM's names of the features
    small            whether kernels are to take little scratch memory, even if that takes time
    vectors          whether it computes with vectors
    quads            bytes of the registers whose quads of byte products it adds to sums, exactly; 0 if it does not
    signed_quads     whether it does so for signed data only (sdot), and not for unsigned data by signed weights
    quad_rate        products of bytes that it sums in the time in which Winograd's matrix products take one of i16
    dots             bytes of the registers whose products of bytes it adds to one sum, a scalar; 0 if it does not
    byte_pairs       whether it adds two products of bytes at once, in sums that saturate at 16 bits (vpmaddubsw)
    matrices         whether it multiplies matrices of bytes that lie in registers of their own (tdpbssd)
    halves           whether it has no vectors, but multiplies the halves of words (smlad of Arm's profile M)
    packed           bytes of the registers to which it packs wider lanes with saturation, and from which it interleaves
                     bytes; 0 if it extends and truncates vectors of bytes as fast
    extending_loads  whether it extends the bytes of a vector while it loads them
    table            the most entries of a table in which it looks a vector of bytes up faster than one after another
    words_anywhere   whether it loads a word from any address as fast as a byte
    saves_memory     whether constants should be small rather than fast
    wide_words       whether registers hold 32 words of 16 bits
    upper_quads      whether products of words that wrap, and a quad of their upper bytes for two pairs, take less time
                     than products of words by both bytes of the other words
    sum_bits         bits of registers that sums may take: all but those of a step's weights, data and products
    single_block, pair_block, quad_block, dot_block
                     the most output channels of a block whose steps multiply 1, 2, 4 or 16 input channels
    row_block        the most output channels of a block of floats where rows have one output
    small_lanes      the most channels to compute together where memory is to be small
    small_outputs    the most outputs to compute together where memory is to be small; their last sums have 64 bits
    """

    features: frozenset[str] = frozenset()
    small: bool = False
    vectors: bool = True
    quads: int = 0
    signed_quads: bool = False
    quad_rate: int = 1
    dots: int = 0
    byte_pairs: bool = False
    matrices: bool = False
    halves: bool = False
    packed: int = 0
    extending_loads: bool = False
    table: int = 0
    words_anywhere: bool = True
    saves_memory: bool = False
    wide_words: bool = False
    upper_quads: bool = False
    sum_bits: int = 12 * 256
    single_block: int = 16
    pair_block: int = 16
    quad_block: int = 16
    dot_block: int = 4
    row_block: int = 16
    small_lanes: int = 32
    small_outputs: int = 3

    def block(self, group: int) -> int:
        """The most output channels of a block whose steps multiply `group` input channels."""
        most = {1: self.single_block, 2: self.pair_block, 4: self.quad_block, 16: self.dot_block}[group]
        return min(most, self.small_lanes) if self.small else most


_BLOCKS_OF_TWO = {"single_block": 2, "pair_block": 2, "quad_block": 2}
"""Without vectors a block has two channels, each with a register."""

_BLOCKS = {"single_block": 16, "pair_block": 16, "quad_block": 16, "row_block": 32}
"""With NEON four registers of 128 bits share each datum."""

UNITS: Sequence[tuple[str, Mapping[str, Any]]] = (
    # RISC-V and Arm's profile M have vectors by an extension only. Sums may take 8 of RISC-V's 31 registers and 4 of
    # the 13 of Thumb. The constants of microcontrollers lie in some 100 KB of flash.
    ("m", {"vectors": False, "saves_memory": True, "words_anywhere": False, "sum_bits": 8 * 32, **_BLOCKS_OF_TWO}),
    ("thumb2", {"vectors": False, "saves_memory": True, "sum_bits": 4 * 32, **_BLOCKS_OF_TWO}),
    ("strict-align", {"words_anywhere": False}),
    ("thumb2 dsp", {"halves": True}),
    ("v", {"vectors": True, "saves_memory": False, "sum_bits": 12 * 256, **_BLOCKS}),
    # MVE has 8 registers of 128 bits: 16 channels spill more than 1,000 bytes to the stack. It loads the bytes of a
    # vector from the stack, to which a table goes in each call.
    ("mve", {"vectors": True, "halves": False, "sum_bits": 4 * 128, "small_lanes": 8, "table": 64, **_BLOCKS}),
    # A block of four channels has four sums in the even ones of 13 registers, beside addresses. Loads extend bytes.
    ("mve", {"dots": 16, "extending_loads": True}),
    # A swizzle takes 16 entries, and an engine makes up to three instructions of it.
    ("simd128", {"table": 64}),
    # NEON has 32 registers of 128 bits: sums take 20 beside the 8 with the weights that smlal multiplies, of even and
    # of odd lanes in halves of registers, and 24 beside 4 with the weights of 16 channels for sdot or usdot.
    ("neon", {"table": 256, "sum_bits": 10 * 256}),
    ("dotprod", {"quads": 16, "signed_quads": True, "quad_rate": 2, "sum_bits": 12 * 256}),
    ("i8mm", {"quads": 16, "signed_quads": False, "quad_rate": 2, "sum_bits": 12 * 256}),
    # With 16 registers of 128 bits, 2 outputs of 8 channels are as fast as 3 of 16, and take half of the code's bytes.
    ("sse2", {"packed": 16, "small_lanes": 8, "small_outputs": 2}),
    ("ssse3", {"table": 256}),
    ("avx2", {"packed": 32, "byte_pairs": True, "row_block": 64, "small_lanes": 32, "small_outputs": 3}),
    ("avxvnni", {"quads": 32, "signed_quads": False, "quad_rate": 2}),
    # AVX-512 has 32 registers of 512 bits, two of which share each datum.
    ("avx512f", {"sum_bits": 48 * 256, "single_block": 32}),
    ("avx512bw", {"packed": 64, "wide_words": True}),
    # Measured: a rate of 4 on Emerald Rapids, where 56x56x64 takes 0.83 and 28x28x128 takes 0.73 of Winograd's time; 2
    # on Zen 4, whose registers of 512 bits are computed in two halves. AMD's processors alone have sse4a. They arrange
    # upper bytes while they multiply; Intel's multiply in the ports that would arrange them.
    ("avx512vnni", {"quads": 64, "signed_quads": False, "quad_rate": 4, "quad_block": 32}),
    ("avx512vnni sse4a", {"quad_rate": 2, "upper_quads": True}),
    ("amx-int8", {"matrices": True}),
)
"""The features of a unit, and what a processor that has all of them can do; later rows override earlier ones."""


@cache
def capabilities(features: frozenset[str] | str, *, small: bool = False) -> Capabilities:
    """What a processor does at once.

    Args:
        features: Its features, or a list of them in LLVM's syntax.
        small: Whether its memory is small.

    Raises:
        OptionError: The list is malformed.
    """
    if isinstance(features, str):
        features = _parsed(features)
    machine = Capabilities(features, small)
    for needed, changes in UNITS:
        if features.issuperset(needed.split()):
            machine = replace(machine, **changes)
    return machine
