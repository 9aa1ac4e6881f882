"""The peak of a processor: how many products of integers one thread computes and adds up in a second, measured.

A loop of generated code runs independent chains of the widest instruction that multiplies and adds integers; it reads
no memory. Each chain depends on its own last result, so that LLVM cannot move it out of the loop.
"""

import ctypes
import re
import time
from dataclasses import dataclass

from qmlir.backends.cpu.llvm import LoadedObject, Machine, compile_object, enabled

CHAINS = 12
"""Independent sums: a processor that starts two such instructions a cycle needs them to hide a latency of 6 cycles."""

PEAK_SECONDS = 0.002
"""The least time of one of the measured runs, in seconds; so short that some of them are not interrupted."""

PEAK_RUNS = 100


@dataclass(frozen=True)
class DotForm:
    """An instruction, or a pair of them, that adds products of integers to 32-bit sums.

    what      its name in assembly, for people
    features  the processor features of which it needs at least one; empty if every processor has it
    lanes     32-bit sums in a register
    group     products added to each of the sums
    step      LLVM IR: `%next` from the sums `%sum` and the data `%data`, both `<lanes x i32>`
    declared  the intrinsics that `step` calls
    chains    independent sums
    """

    what: str
    features: tuple[str, ...]
    lanes: int
    group: int
    step: str
    declared: str = ""
    chains: int = CHAINS

    @property
    def matrices(self) -> bool:
        """Whether sums and data are registers of a matrix unit."""
        return "x86_amx" in self.step


def _byte_dot(bits: int, *features: str) -> DotForm:
    sums, name = f"<{bits // 32} x i32>", f"llvm.x86.avx512.vpdpbusd.{bits}"
    step = f"%next = call {sums} @{name}({sums} %sum, {sums} %data, {sums} %data)"
    declared = f"declare {sums} @{name}({sums}, {sums}, {sums})"
    return DotForm(f"vpdpbusd on {bits} bits", features, bits // 32, 4, step, declared)


def _pair_dot(bits: int, feature: str, name: str) -> DotForm:
    sums, words = f"<{bits // 32} x i32>", f"<{bits // 16} x i16>"
    step = f"""%words = bitcast {sums} %sum to {words}
  %factors = bitcast {sums} %data to {words}
  %products = call {sums} @{name}({words} %words, {words} %factors)
  %next = add {sums} %sum, %products"""
    declared = f"declare {sums} @{name}({words}, {words})"
    what = f"{'pmaddwd + paddd' if feature == 'sse2' else 'vpmaddwd + vpaddd'} on {bits} bits"
    return DotForm(what, (feature,), bits // 32, 2, step, declared)


def _matrix_dot() -> DotForm:
    """A product of registers of a matrix unit, 16 rows by 16 columns of 64 products each: three different ones."""
    name, sizes = "@llvm.x86.tdpbssd.internal", "i16 16, i16 64, i16 64"
    step = f"%next = call x86_amx {name}({sizes}, x86_amx %sum, x86_amx %data, x86_amx %others)"
    declared = """declare x86_amx @llvm.x86.tdpbssd.internal(i16, i16, i16, x86_amx, x86_amx, x86_amx)
declare x86_amx @llvm.x86.tileloadd64.internal(i16, i16, ptr, i64)
declare void @llvm.x86.tilestored64.internal(i16, i16, ptr, i64, x86_amx)"""
    return DotForm("tdpbssd on 16 rows of 64 bytes", ("amx-int8",), 256, 64, step, declared, chains=4)


DOT_FORMS = (
    _matrix_dot(),
    _byte_dot(512, "avx512vnni"),
    _byte_dot(256, "avxvnni"),
    _pair_dot(512, "avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
    _pair_dot(256, "avx2", "llvm.x86.avx2.pmadd.wd"),
    _pair_dot(128, "sse2", "llvm.x86.sse2.pmadd.wd"),
    DotForm(
        "sdot on 128 bits",
        ("dotprod",),
        4,
        4,
        """%words = bitcast <4 x i32> %data to <16 x i8>
  %next = call <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32> %sum, <16 x i8> %words, <16 x i8> %words)""",
        "declare <4 x i32> @llvm.aarch64.neon.sdot.v4i32.v16i8(<4 x i32>, <16 x i8>, <16 x i8>)",
    ),
    DotForm(
        "smlal on 128 bits",
        ("neon",),
        4,
        1,
        """%words = bitcast <4 x i32> %sum to <8 x i16>
  %factors = shufflevector <8 x i16> %words, <8 x i16> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %products = call <4 x i32> @llvm.aarch64.neon.smull.v4i32(<4 x i16> %factors, <4 x i16> %factors)
  %next = add <4 x i32> %sum, %products""",
        "declare <4 x i32> @llvm.aarch64.neon.smull.v4i32(<4 x i16>, <4 x i16>)",
    ),
    DotForm(
        "32-bit products on 128 bits",
        (),
        4,
        1,
        "%products = mul <4 x i32> %sum, %data\n  %next = add <4 x i32> %products, %data",
    ),
)
"""Forms from the most products an instruction to the least."""


@dataclass(frozen=True)
class Peak:
    """What one thread of this processor computes at most.

    products  products of integers, each added to a sum, in a second
    what      the instruction that was measured
    """

    products: float
    what: str


def dot_form(features: frozenset[str]) -> DotForm:
    """The widest form that a processor with these features has."""
    return next(form for form in DOT_FORMS if not form.features or features.intersection(form.features))


def peak_code(form: DotForm) -> str:
    """LLVM IR of `void peak(i64 %rounds, ptr %memory)`: each round is a step of every chain."""
    sums = "x86_amx" if form.matrices else f"<{form.lanes} x i32>"
    size = form.lanes * 4
    load, store = f"load {sums}, ptr %memory, align 4", "store {sums} %next.{n}, ptr %place.{n}, align 4"
    if form.matrices:
        load = "call x86_amx @llvm.x86.tileloadd64.internal(i16 16, i16 64, ptr %memory, i64 64)"
        second = load.replace("%memory", "%second")
        load += f"\n  %second = getelementptr i8, ptr %memory, i64 {size}\n  %others = {second}"
        store = "call void @llvm.x86.tilestored64.internal(i16 16, i16 64, ptr %place.{n}, i64 64, {sums} %next.{n})"
    chains: list[str] = []
    phis: list[str] = []
    totals: list[str] = []
    for n in range(form.chains):
        chains.append("  " + re.sub(r"%(sum|next|words|factors|products)\b", rf"%\1.{n}", form.step))
        phis.append(f"  %sum.{n} = phi {sums} [ %data, %entry ], [ %next.{n}, %loop ]")
        totals.append(f"  %place.{n} = getelementptr i8, ptr %memory, i64 {n * size}")
        totals.append("  " + store.format(sums=sums, n=n))
    return "\n".join(
        [
            "define void @peak(i64 %rounds, ptr %memory) {\nentry:",
            f"  %data = {load}\n  br label %loop\nloop:",
            "  %round = phi i64 [ 0, %entry ], [ %later, %loop ]",
            *phis,
            *chains,
            "  %later = add i64 %round, 1\n  %more = icmp slt i64 %later, %rounds",
            "  br i1 %more, label %loop, label %end\nend:",
            *totals,
            f"  ret void\n}}\n{form.declared}\n",
        ]
    )


def measure_peak(machine: Machine) -> Peak:
    """Measures the peak of this processor with the widest form that code for `machine` may use: the best of some runs.

    Args:
        machine: The processor to generate code for; this processor has its features.
    """
    form = dot_form(enabled(machine))
    loaded = LoadedObject(compile_object(peak_code(form), machine), "peak")
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(loaded.address)
    memory = ctypes.create_string_buffer(form.chains * form.lanes * 4)

    def seconds(rounds: int) -> float:
        start = time.perf_counter()
        function(rounds, ctypes.addressof(memory))
        return time.perf_counter() - start

    rounds = 1000
    while (spent := seconds(rounds)) < PEAK_SECONDS:
        rounds *= 2 if spent > PEAK_SECONDS / 10 else 10
    best = min(seconds(rounds) for _ in range(PEAK_RUNS))
    return Peak(rounds * form.chains * form.lanes * form.group / best, form.what)
