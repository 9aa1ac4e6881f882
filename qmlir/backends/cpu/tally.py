"""Range, histogram and exact moments of float32 values in machine code: the hot loops of profiling.

`extent` finds the range. `tally` then counts the values and adds them up; it computes what
`qmlir.profiles.profile.tally_in_blocks` does, four values at a time.

A sum of doubles is exact if all of them are multiples of one power of two and their magnitudes add up to less than 2^53
times it. So each value is cut into slices of 36 bits, and slices of the same place are added up (histograms.py):

    head = (rest + rounder) − rounder     the multiples of the slice's unit; the rounder is 1.5 · 2^52 units
    rest = rest − head                    below half a unit, without rounding
    sum  = sum + head                     below 2^36 units each, `BLOCK` of them between two moves to an integer

Two slices hold the values of common tensors and three hold their squares. If anything is left, the values are added up
once more in more slices (`SLICES`).
"""

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import numpy as np

from qmlir.backends.cpu.llvm import LoadedObject, Machine, compile_object
from qmlir.numerics import Float32s, Float64s, Int64s
from qmlir.numerics.histograms import BLOCK, SLICE_BITS, SQUARE_UNIT, VALUE_UNIT, Moments
from qmlir.profiles.tensor_profile import Counter, counted_by

LANES = 4
"""Values that are counted and added up side by side: doubles in a register of 256 bits."""

CHUNK = 1 << 20
"""Values of one call: few enough that a slice's sum is below 2^63 units, and a lane's counts below 2^32."""

SLICES = ((2, 3), (4, 6), (8, 16))
"""Slices of a value and of its square: in the first attempt, in the next, and in the last.

The first suffices if no value but 0 is below 2^-30 of the largest magnitude, the second down to 2^-84, as in a softmax.
The last holds all bits from the largest float32 to the smallest.
"""

WIDE = 32
"""Values of one step of `extent`: four registers, since a minimum has a latency of several cycles."""


def extent(values: Float32s) -> tuple[float, float] | None:
    """Returns the smallest and the largest value; None if some value is not finite.

    Args:
        values: Numbers, at least one, C-contiguous.
    """
    found = np.empty(2, np.float32)
    finite = _compiled()[0](values.ctypes.data, values.size, found.ctypes.data)
    return (float(found[0]), float(found[1])) if finite else None


def tally(values: Float32s, exponent: int, first: int, counts: Int64s) -> Moments:
    """Adds values to a histogram; computes the same as `qmlir.profiles.profile.tally_in_blocks`.

    Args:
        values: Finite numbers, C-contiguous.
        exponent: k; bins are 2^k wide.
        first: The index of the first bin.
        counts: The count of each bin, updated in place; the bins must cover all values.

    Returns:
        The exact moments of the values.
    """
    count, *again = _compiled()[1:]
    by_lane = np.zeros((LANES, len(counts) + 1), np.uint32)
    sums: Int64s = np.empty((sum(SLICES[-1]), LANES), np.int64)
    sums_at, by_lane_at = sums.ctypes.data, by_lane.ctypes.data
    # All values lie in the bins, so no magnitude reaches 2^top.
    top, moments = max(abs(first), abs(first + len(counts))).bit_length() + exponent, Moments()
    for start in range(0, values.size, CHUNK):
        chunk = values[start : start + CHUNK]
        data = (chunk.ctypes.data, chunk.size)
        slices = cut(top, *SLICES[0])
        sums[:] = 0
        left = count(*data, 2.0**-exponent, float(first), by_lane_at, len(counts), *slices.constants, sums_at)
        for add_up, number in zip(again, SLICES[1:], strict=True):
            if left:
                slices = cut(top, *number)
                sums[:] = 0
                left = add_up(*data, *slices.constants, sums_at)
        moments.merge(slices.moments(sums))
    counts += by_lane[:, :-1].sum(axis=0, dtype=np.int64)
    return moments


IN_MACHINE_CODE = Counter(extent, tally)

P = ParamSpec("P")
T = TypeVar("T")


def counting_in_machine_code(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function so that values that it counts are counted in machine code, where they are many."""

    @wraps(function)
    def counting(*args: P.args, **kwargs: P.kwargs) -> T:
        with counted_by(IN_MACHINE_CODE):
            return function(*args, **kwargs)

    return counting


@dataclass(frozen=True)
class Slices:
    """How values and squares are cut.

    values    the number of slices of values; slices of squares follow
    units     exponents of the slices' units
    rounders  1.5 · 2^52 units of each slice
    inverses  1 / unit of each slice
    """

    values: int
    units: tuple[int, ...]
    rounders: Float64s
    inverses: Float64s

    @cached_property
    def constants(self) -> tuple[int, int]:
        """The addresses of rounders and inverses."""
        return self.rounders.ctypes.data, self.inverses.ctypes.data

    def moments(self, sums: Int64s) -> Moments:
        """Returns the sums of values and squares from those of each slice and lane, [slices or more, lanes]."""
        by_slice = [sum(lanes) for lanes in sums[: len(self.units)].tolist()]
        pairs = list(zip(by_slice, self.units, strict=True))
        return Moments(_total(pairs[: self.values], VALUE_UNIT), _total(pairs[self.values :], SQUARE_UNIT))


@cache
def cut(top: int, values: int, squares: int) -> Slices:
    """Cuts values of magnitude below 2^top in `values` slices, and their squares in `squares`."""
    below = SLICE_BITS + 1
    units = [top - SLICE_BITS - below * i for i in range(values)]
    units += [2 * top - SLICE_BITS - below * i for i in range(squares)]
    exponents = np.array(units)
    return Slices(values, tuple(units), np.ldexp(1.5, exponents + 52), np.ldexp(1.0, -exponents))


def _total(sums: list[tuple[int, int]], unit: int) -> int:
    """Adds up sums in units of 2^k each, in units of 2^unit; a sum in a smaller unit is a multiple of 2^unit."""
    return sum(s << (k - unit) if k >= unit else s >> (unit - k) for s, k in sums)


_lock = Lock()


def _compiled() -> tuple[Any, ...]:
    """The compiled functions: `extent`, then for each of `SLICES` a function that adds up, the first counts too."""
    with _lock:  # threads that ask at the same time compile once
        return _compile()


@cache
def _compile() -> tuple[Any, ...]:
    texts = [_extent(), *(_tally(f"tally{i}", *number, counting=i == 0) for i, number in enumerate(SLICES))]
    code = compile_object("\n".join([*texts, DECLARATIONS]), Machine.host())
    pointer, number, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
    slices = [pointer, pointer, pointer]
    again = ctypes.CFUNCTYPE(number, pointer, number, *slices)
    return (
        _function(code, "extent", ctypes.CFUNCTYPE(number, pointer, number, pointer)),
        _function(code, "tally0", ctypes.CFUNCTYPE(number, pointer, number, real, real, pointer, number, *slices)),
        *(_function(code, f"tally{i}", again) for i in range(1, len(SLICES))),
    )


def _function(code: bytes, name: str, prototype: Any) -> Any:
    """A function of an object file; it keeps its code alive."""
    loaded = LoadedObject(code, name)
    function = prototype(loaded.address)
    function.loaded = loaded
    return function


# ---------------------------------------------------------------------------------------------------------------
# The code. LLVM makes of each vector what the processor has.

DECLARATIONS = """
declare <4 x double> @llvm.floor.v4f64(<4 x double>)
declare i32 @llvm.vector.reduce.umax.v32i32(<32 x i32>)
declare float @llvm.vector.reduce.fmin.v32f32(<32 x float>)
declare float @llvm.vector.reduce.fmax.v32f32(<32 x float>)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.vector.reduce.or.v4i64(<4 x i64>)
"""


def _extent() -> str:
    """LLVM IR of `i64 extent(values, size, float found[2])`: the range, and 1 if all values are finite.

    The last step overlaps the step before it. A value is finite if the bits of its magnitude are below those of
    infinity.
    """
    return f"""
define i64 @extent(ptr noalias %values, i64 %size, ptr noalias %found) {{
entry:
  %one = load float, ptr %values
  %one.bits = load i32, ptr %values
  %head = insertelement <{WIDE} x float> poison, float %one, i64 0
  %all = shufflevector <{WIDE} x float> %head, <{WIDE} x float> poison, <{WIDE} x i32> zeroinitializer
  %wide = icmp sge i64 %size, {WIDE}
  %last = sub i64 %size, {WIDE}
  br i1 %wide, label %loop, label %few
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %lo = phi <{WIDE} x float> [ %all, %entry ], [ %lo.new, %loop ]
  %hi = phi <{WIDE} x float> [ %all, %entry ], [ %hi.new, %loop ]
  %most = phi <{WIDE} x i32> [ zeroinitializer, %entry ], [ %most.new, %loop ]
  %ends = icmp sgt i64 %i, %last
  %from = select i1 %ends, i64 %last, i64 %i
  %place = getelementptr float, ptr %values, i64 %from
  %some = load <{WIDE} x float>, ptr %place, align 4
  %less = fcmp olt <{WIDE} x float> %some, %lo
  %lo.new = select <{WIDE} x i1> %less, <{WIDE} x float> %some, <{WIDE} x float> %lo
  %more = fcmp ogt <{WIDE} x float> %some, %hi
  %hi.new = select <{WIDE} x i1> %more, <{WIDE} x float> %some, <{WIDE} x float> %hi
  %bits = bitcast <{WIDE} x float> %some to <{WIDE} x i32>
  %magnitude = and <{WIDE} x i32> %bits, splat (i32 2147483647)
  %larger = icmp ugt <{WIDE} x i32> %magnitude, %most
  %most.new = select <{WIDE} x i1> %larger, <{WIDE} x i32> %magnitude, <{WIDE} x i32> %most
  %next = add i64 %i, {WIDE}
  %again = icmp slt i64 %next, %size
  br i1 %again, label %loop, label %reduce
reduce:
  %lo.least = call nnan float @llvm.vector.reduce.fmin.v32f32(<{WIDE} x float> %lo.new)
  %hi.most = call nnan float @llvm.vector.reduce.fmax.v32f32(<{WIDE} x float> %hi.new)
  %most.most = call i32 @llvm.vector.reduce.umax.v32i32(<{WIDE} x i32> %most.new)
  br label %end
few:
  %f = phi i64 [ 0, %entry ], [ %f.next, %few ]
  %f.lo = phi float [ %one, %entry ], [ %f.lo.new, %few ]
  %f.hi = phi float [ %one, %entry ], [ %f.hi.new, %few ]
  %f.most = phi i32 [ 0, %entry ], [ %f.most.new, %few ]
  %f.place = getelementptr float, ptr %values, i64 %f
  %f.value = load float, ptr %f.place
  %f.less = fcmp olt float %f.value, %f.lo
  %f.lo.new = select i1 %f.less, float %f.value, float %f.lo
  %f.more = fcmp ogt float %f.value, %f.hi
  %f.hi.new = select i1 %f.more, float %f.value, float %f.hi
  %f.bits = bitcast float %f.value to i32
  %f.magnitude = and i32 %f.bits, 2147483647
  %f.larger = icmp ugt i32 %f.magnitude, %f.most
  %f.most.new = select i1 %f.larger, i32 %f.magnitude, i32 %f.most
  %f.next = add i64 %f, 1
  %f.again = icmp slt i64 %f.next, %size
  br i1 %f.again, label %few, label %end
end:
  %lo.found = phi float [ %lo.least, %reduce ], [ %f.lo.new, %few ]
  %hi.found = phi float [ %hi.most, %reduce ], [ %f.hi.new, %few ]
  %most.found = phi i32 [ %most.most, %reduce ], [ %f.most.new, %few ]
  store float %lo.found, ptr %found
  %second = getelementptr float, ptr %found, i64 1
  store float %hi.found, ptr %second
  %finite = icmp ult i32 %most.found, 2139095040
  %result = zext i1 %finite to i64
  ret i64 %result
}}"""


def _tally(name: str, values: int, squares: int, *, counting: bool) -> str:
    """LLVM IR of `i64 tally(values, size, …, rounders, inverses, sums)`: whether the slices leave anything over.

    Where it counts, the arguments in between are 1 / width, the first bin, counts [lanes, bins + 1] and bins: lanes
    count apart, since values of one bin, such as the zeros after a ReLU, would wait for each other. The last one to
    three values are copied to a vector of zeros, which add nothing; lanes beyond them count in the last bin.
    """
    slices = range(values + squares)
    arguments = "double %inverse, double %first, ptr noalias %counts, i64 %bins, " if counting else ""
    chains = (("real", range(values)), ("square", range(values, values + squares)))
    constants = [
        *(line for i in slices for line in _element("rounder", "rounders", i)),
        *(line for i in slices for line in _element("unit", "inverses", i)),
    ]
    if counting:
        constants += [*_splat("inverse.all", "double %inverse"), *_splat("first.all", "double %first"), *ROWS]
    sums = [f"%sum{i} = phi <4 x double> [ zeroinitializer, %block ], [ %sum.new{i}, %step ]" for i in slices]
    heads = [line for chain, places in chains for line in _cut(chain, places)]
    moves = [line for i in slices for line in _move(i)]
    return f"""
define i64 @{name}(ptr noalias %values, i64 %size, {arguments}ptr noalias %rounders, ptr noalias %inverses,
    ptr noalias %sums) {{
entry:
  %spare = alloca <4 x float>
  store <4 x float> zeroinitializer, ptr %spare
  %whole = and i64 %size, -4
  %over = and i64 %size, 3
  %over.bytes = shl i64 %over, 2
  %over.place = getelementptr float, ptr %values, i64 %whole
  call void @llvm.memcpy.p0.p0.i64(ptr %spare, ptr %over.place, i64 %over.bytes, i1 false)
  {_joined(constants)}
  %some = icmp sgt i64 %size, 0
  br i1 %some, label %block, label %end
block:
  %begin = phi i64 [ 0, %entry ], [ %stop, %moved ]
  %left.before = phi <4 x i64> [ zeroinitializer, %entry ], [ %left.new, %moved ]
  %stop = add i64 %begin, {BLOCK}
  br label %step
step:
  %i = phi i64 [ %begin, %block ], [ %next, %step ]
  %left = phi <4 x i64> [ %left.before, %block ], [ %left.new, %step ]
  {_joined(sums)}
  %inside = icmp slt i64 %i, %whole
  %there = getelementptr float, ptr %values, i64 %i
  %place = select i1 %inside, ptr %there, ptr %spare
  %single = load <4 x float>, ptr %place, align 4
  %real = fpext <4 x float> %single to <4 x double>
  %square = fmul <4 x double> %real, %real
  {_joined(heads)}
  %left.some = or <4 x i64> %real.over, %square.over
  %left.new = or <4 x i64> %left, %left.some
  {_joined(COUNTING if counting else ())}
  %next = add i64 %i, 4
  %more = icmp slt i64 %next, %size
  %in.block = icmp slt i64 %next, %stop
  %again = and i1 %more, %in.block
  br i1 %again, label %step, label %moved
moved:
  {_joined(moves)}
  br i1 %more, label %block, label %end
end:
  %left.all = phi <4 x i64> [ zeroinitializer, %entry ], [ %left.new, %moved ]
  %left.magnitude = and <4 x i64> %left.all, splat (i64 9223372036854775807)
  %left.any = call i64 @llvm.vector.reduce.or.v4i64(<4 x i64> %left.magnitude)
  %result.any = icmp ne i64 %left.any, 0
  %result = zext i1 %result.any to i64
  ret i64 %result
}}"""


def _joined(lines: Iterable[str]) -> str:
    return "\n  ".join(lines)


def _splat(name: str, scalar: str) -> list[str]:
    """Four times a scalar, which is written with its type."""
    type_name = scalar.split()[0]
    vector = f"<4 x {type_name}>"
    return [
        f"%{name}.one = insertelement {vector} poison, {scalar}, i64 0",
        f"%{name} = shufflevector {vector} %{name}.one, {vector} poison, <4 x i32> zeroinitializer",
    ]


def _element(name: str, table: str, i: int) -> list[str]:
    """Four times the double of a table."""
    return [
        f"%{name}.place{i} = getelementptr double, ptr %{table}, i64 {i}",
        f"%{name}.scalar{i} = load double, ptr %{name}.place{i}",
        *_splat(f"{name}{i}", f"double %{name}.scalar{i}"),
    ]


def _cut(chain: str, places: range) -> list[str]:
    """Adds the slices of `%chain` to their sums; `%chain.over` are the bits of what they leave."""
    lines: list[str] = []
    rest = f"%{chain}"
    for i in places:
        lines += [
            f"%up{i} = fadd <4 x double> {rest}, %rounder{i}",
            f"%head{i} = fsub <4 x double> %up{i}, %rounder{i}",
            f"%rest{i} = fsub <4 x double> {rest}, %head{i}",
            f"%sum.new{i} = fadd <4 x double> %sum{i}, %head{i}",
        ]
        rest = f"%rest{i}"
    return [*lines, f"%{chain}.over = bitcast <4 x double> {rest} to <4 x i64>"]


def _move(i: int) -> list[str]:
    """Adds the sum of a slice, in its unit, to the integers in memory."""
    return [
        f"%in.units{i} = fmul <4 x double> %sum.new{i}, %unit{i}",
        f"%integers{i} = fptosi <4 x double> %in.units{i} to <4 x i64>",
        f"%sum.place{i} = getelementptr <4 x i64>, ptr %sums, i64 {i}",
        f"%before{i} = load <4 x i64>, ptr %sum.place{i}, align 8",
        f"%after{i} = add <4 x i64> %before{i}, %integers{i}",
        f"store <4 x i64> %after{i}, ptr %sum.place{i}, align 8",
    ]


ROWS = (
    "%row = add i64 %bins, 1",
    *(
        line
        for lane in range(LANES)
        for line in (
            f"%row.at{lane} = mul i64 %row, {lane}",
            f"%lane.counts{lane} = getelementptr i32, ptr %counts, i64 %row.at{lane}",
        )
    ),
)
"""The counts of each lane."""

COUNTING = (
    "%scaled = fmul <4 x double> %real, %inverse.all",
    "%floor = call <4 x double> @llvm.floor.v4f64(<4 x double> %scaled)",
    "%offset = fsub <4 x double> %floor, %first.all",
    "%bin = fptosi <4 x double> %offset to <4 x i32>",
    *(
        line
        for lane in range(LANES)
        for line in (
            f"%at{lane} = add i64 %i, {lane}",
            f"%valid{lane} = icmp slt i64 %at{lane}, %size",
            f"%narrow{lane} = extractelement <4 x i32> %bin, i64 {lane}",
            f"%wide{lane} = zext i32 %narrow{lane} to i64",
            f"%bin{lane} = select i1 %valid{lane}, i64 %wide{lane}, i64 %bins",
            f"%count.place{lane} = getelementptr i32, ptr %lane.counts{lane}, i64 %bin{lane}",
            f"%count.old{lane} = load i32, ptr %count.place{lane}",
            f"%count.new{lane} = add i32 %count.old{lane}, 1",
            f"store i32 %count.new{lane}, ptr %count.place{lane}",
        )
    ),
)
"""Counts four values: the bin is floor(value / width) − first, exact in doubles."""
