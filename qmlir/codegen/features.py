"""Features of a processor, by which lowerings choose kernels and instructions; a pass gets them as its option."""

from qmlir.errors import OptionError


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
    """Whether the processor adds four products of bytes to a sum at once, exactly (vpdpbusd, usdot, sdot)."""
    return quad_bytes(features) > 0


def products_at_once(features: frozenset[str]) -> int:
    """Products of bytes that are summed in the time in which Winograd's matrix products take one of i16.

    Measured: 2 on Zen 4, whose registers of 512 bits are computed in two halves; 4 on Emerald Rapids, where 56x56x64
    takes 0.83 and 28x28x128 takes 0.73 of Winograd's time. AMD's processors alone have sse4a.
    """
    if "avx512vnni" in features and "sse4a" not in features:
        return 4
    return 2 if sums_quads(features) else 1


def quad_bytes(features: frozenset[str]) -> int:
    """Bytes of the registers whose quads the processor sums; 0 if it does not."""
    sizes = (("avx512vnni", 64), ("avxvnni", 32), ("i8mm", 16), ("dotprod", 16))
    return next((size for name, size in sizes if name in features), 0)


def quads_are_signed(features: frozenset[str]) -> bool:
    """Whether it does so for signed data only (sdot), and not for unsigned data by signed weights."""
    return "dotprod" in features and features.isdisjoint(("avx512vnni", "avxvnni", "i8mm"))


def sums_byte_pairs(features: frozenset[str]) -> bool:
    """Whether the processor adds two products of bytes at once, in sums that saturate at 16 bits (vpmaddubsw)."""
    return "avx2" in features


def bytes_packed(features: frozenset[str]) -> int:
    """Bytes of the registers to which wider lanes are packed with saturation, and from which bytes are interleaved.

    0 for processors whose vectors of bytes are extended and truncated as fast.
    """
    return next((size for name, size in (("avx512bw", 64), ("avx2", 32), ("sse2", 16)) if name in features), 0)


def looks_up_bytes(features: frozenset[str], entries: int = 256) -> bool:
    """Whether the processor looks a vector of bytes up in a table faster than one byte after another.

    WebAssembly's swizzle takes 16 entries, and an engine makes up to three instructions of it. MVE loads the bytes of a
    vector from the stack, to which a table goes in each call.
    """
    if not features.isdisjoint(("ssse3", "neon")):
        return True
    return not features.isdisjoint(("simd128", "mve")) and entries <= 64


def multiplies_matrices(features: frozenset[str]) -> bool:
    """Whether the processor multiplies matrices of bytes that lie in registers of their own (tdpbssd)."""
    return "amx-int8" in features


def has_vectors(features: frozenset[str]) -> bool:
    """Whether the processor computes with vectors; code for a processor of which nothing is known has vectors.

    Processors of Arm's profile M and of RISC-V, all of which have `thumb2` or `m`, have vectors by an extension only.
    """
    return features.isdisjoint(("thumb2", "m")) or not features.isdisjoint(("mve", "v"))


def multiplies_halves(features: frozenset[str]) -> bool:
    """Whether the processor has no vectors, but multiplies the halves of words (smlad of Arm's profile M)."""
    return "dsp" in features and not has_vectors(features)


def loads_words_anywhere(features: frozenset[str]) -> bool:
    """Whether the processor loads a word from any address as fast as a byte."""
    return features.isdisjoint(("m", "strict-align"))


def saves_memory(features: frozenset[str]) -> bool:
    """Whether constants should be small rather than fast: those of microcontrollers lie in some 100 KB of flash."""
    return "thumb2" in features or not has_vectors(features)


def bits_of_sums(features: frozenset[str]) -> int:
    """Bits of registers that sums may take: all but those of a step's weights, data and products.

    Without vectors these are 8 of RISC-V's 31 registers, and 4 of the 13 of Thumb. MVE has 8 registers of 128 bits.
    """
    if not has_vectors(features):
        return 4 * 32 if "thumb2" in features else 8 * 32
    return 4 * 128 if "mve" in features else 256 * accumulators(features)


def most_lanes_without_spills(features: frozenset[str]) -> int:
    """The most channels to compute together where memory is to be small.

    With the few registers of MVE, 16 channels spill more than 1,000 bytes to the stack.
    """
    return 8 if _has_sse_alone(features) or (has_vectors(features) and bits_of_sums(features) <= 4 * 128) else 32


def most_outputs_without_spills(features: frozenset[str]) -> int:
    """The most outputs to compute together where memory is to be small; at the end of each, sums have 64 bits.

    With SSE, 2 outputs of 8 channels are as fast as 3 of 16, and their code takes half of the bytes.
    """
    return 2 if _has_sse_alone(features) else 3


def _has_sse_alone(features: frozenset[str]) -> bool:
    """Whether vectors have 128 bits, in 16 registers."""
    return "sse2" in features and "avx2" not in features


def accumulators(features: frozenset[str]) -> int:
    """Registers of 256 bits that sums may take on processors with vectors.

    AVX-512 has 32 registers of 512 bits, other x86 processors 16 of 256 bits or less. NEON has 32 of 128 bits: sums
    take 24 of them beside 4 with the weights of 16 channels that sdot or usdot multiplies, and 20 beside the 8 with the
    weights that smlal multiplies, of even and of odd lanes in halves of registers.
    """
    if "avx512f" in features:
        return 48
    return 10 if "neon" in features and not sums_quads(features) else 12


def widest_block(features: frozenset[str], group: int) -> int:
    """The output channels of a block: with registers of 512 bits, two of them share each datum.

    With NEON four registers of 128 bits share it. Without vectors a block has two channels, each with a register.

    Args:
        features: The processor's features.
        group: The channels that a step multiplies: 4 bytes, 2 integers of 16 bits, or one number.
    """
    if not has_vectors(features):
        return 2
    if group == 4:
        return 32 if "avx512vnni" in features else 16
    return 32 if "avx512f" in features and group == 1 else 16
