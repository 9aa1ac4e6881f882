"""A function in C headers that asks the processor whether it has the features that code needs.

Compilers know how to ask x86. On AArch64 and RISC-V, Linux tells a process by bits of the auxiliary vector, AT_HWCAP
and AT_HWCAP2. Microcontrollers, which nobody can ask, have no such function, and features that cannot be asked for are
only listed in the header.
"""

from collections.abc import Mapping, Sequence

X86 = (
    *("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2"),
    *("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi", "avx512vbmi2"),
    *("avx512vnni", "avx512bitalg", "avx512vpopcntdq"),
)
"""Features that `__builtin_cpu_supports` of GCC 8 and of Clang knows; no code is generated for a lone other one."""

AARCH64: Mapping[str, tuple[int, int]] = {
    "aes": (1, 3),
    "sha2": (1, 6),
    "crc": (1, 7),
    "lse": (1, 8),
    "fullfp16": (1, 10),
    "rdm": (1, 12),
    "jsconv": (1, 13),
    "complxnum": (1, 14),
    "rcpc": (1, 15),
    "sha3": (1, 17),
    "sm4": (1, 19),
    "dotprod": (1, 20),
    "sve": (1, 22),
    "fp16fml": (1, 23),
    "sve2": (2, 1),
    "i8mm": (2, 13),
    "bf16": (2, 14),
}
"""LLVM's feature → 1 for AT_HWCAP or 2 for AT_HWCAP2, and the number of the bit, as Linux defines them."""

RISCV: Mapping[str, tuple[int, int]] = {name: (1, ord(name) - ord("a")) for name in "macdfv"}
"""The same of RISC-V: extensions of one letter, by their place in the alphabet."""


def runs_here(architecture: str, needed: Sequence[str], name: str) -> list[str]:
    """Returns the lines of the function, `NAME_runs_here`; none if there is nothing to ask for.

    Args:
        architecture: LLVM's name of the architecture.
        needed: Features beyond those that every processor of the architecture has.
        name: The network's function.
    """
    told = f"/* Whether this processor has {{}}; else never call {name}. */"
    opened = f"static inline int {name}_runs_here(void) {{"
    if architecture == "x86_64":
        return _x86(needed, told.format("those of them that compilers know"), opened)
    table, macro = (RISCV, "__riscv") if architecture.startswith("riscv") else (AARCH64, "__aarch64__")
    masks = [sum(1 << bit for f, (word, bit) in table.items() if word == each and f in needed) for each in (1, 2)]
    if not architecture.startswith(("riscv64", "aarch64")) or not any(masks):
        return []
    asked = [
        f"(getauxval(AT_HWCAP{suffix}) & 0x{mask:x}UL) == 0x{mask:x}UL"
        for suffix, mask in zip(("", "2"), masks, strict=True)
        if mask
    ]
    return [
        f"#if defined({macro}) && defined(__linux__)",
        "#include <sys/auxv.h>",
        told.format("those of them that Linux tells"),
        f"{opened} return {' && '.join(asked)}; }}",
        "#endif",
    ]


def _x86(needed: Sequence[str], told: str, opened: str) -> list[str]:
    asked = " && ".join(f'__builtin_cpu_supports("{name}")' for name in X86 if name in needed)
    matrices = "amx-int8" in needed  # which those compilers do not know: bits 24 and 25 of cpuid, AMX-TILE and AMX-INT8
    if not asked:
        return []
    return [
        "#if defined(__x86_64__) && defined(__GNUC__)",
        *(["#include <cpuid.h>"] if matrices else []),
        told,
        opened,
        *(["  unsigned a, b, c, d = 0;", "  __get_cpuid_count(7, 0, &a, &b, &c, &d);"] if matrices else []),
        f"  __builtin_cpu_init(); return {asked}{' && (d >> 24 & 3) == 3' if matrices else ''}; }}",
        "#endif",
    ]
