"""Histogram and exact moments of float32 values in one pass of machine code: the hot loop of profiling.

The code keeps four sums for each of the 512 combinations of sign and exponent of a float32: the number of values, Σ f
of their 23-bit fractions f, and Σ f² in two halves. The halves let 64-bit integers add up 2^40 values. A value is
±m · 2^(e − 150) with m = 2^23 + f, so the four sums determine the exact sums of values and of squares (histograms.py).
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from qmlir.backends.cpu.machine import LoadedObject, Machine, compile_object
from qmlir.numerics import Float32s, Int64s
from qmlir.numerics.histograms import Moments

BUCKETS = 512

CODE = """
define void @tally(ptr noalias %values, i64 %size, double %inverse, i64 %first, ptr noalias %counts,
                   ptr noalias %sums) {
entry:
  %some = icmp sgt i64 %size, 0
  br i1 %some, label %loop, label %end
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr float, ptr %values, i64 %i
  %bits = load i32, ptr %place
  %value = bitcast i32 %bits to float
  ; the bin: floor(value / width) - first
  %real = fpext float %value to double
  %scaled = fmul double %real, %inverse
  %floor = call double @llvm.floor.f64(double %scaled)
  %index = fptosi double %floor to i64
  %bin = sub i64 %index, %first
  %bin.place = getelementptr i64, ptr %counts, i64 %bin
  %bin.old = load i64, ptr %bin.place
  %bin.new = add i64 %bin.old, 1
  store i64 %bin.new, ptr %bin.place
  ; the bucket: sign and exponent
  %top = lshr i32 %bits, 23
  %bucket = zext i32 %top to i64
  %low = and i32 %bits, 8388607
  %fraction = zext i32 %low to i64
  %square = mul i64 %fraction, %fraction
  %square.low = and i64 %square, 8388607
  %square.high = lshr i64 %square, 23
  %p0 = getelementptr [4 x i64], ptr %sums, i64 %bucket, i64 0
  %p1 = getelementptr [4 x i64], ptr %sums, i64 %bucket, i64 1
  %p2 = getelementptr [4 x i64], ptr %sums, i64 %bucket, i64 2
  %p3 = getelementptr [4 x i64], ptr %sums, i64 %bucket, i64 3
  %v0 = load i64, ptr %p0
  %v1 = load i64, ptr %p1
  %v2 = load i64, ptr %p2
  %v3 = load i64, ptr %p3
  %s0 = add i64 %v0, 1
  %s1 = add i64 %v1, %fraction
  %s2 = add i64 %v2, %square.low
  %s3 = add i64 %v3, %square.high
  store i64 %s0, ptr %p0
  store i64 %s1, ptr %p1
  store i64 %s2, ptr %p2
  store i64 %s3, ptr %p3
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %size
  br i1 %more, label %loop, label %end
end:
  ret void
}
declare double @llvm.floor.f64(double)
"""


def tally(values: Float32s, exponent: int, first: int, counts: Int64s) -> Moments:
    """Adds values to a histogram; computes the same as `qmlir.profiles.tally_in_blocks`.

    Args:
        values: Finite numbers, C-contiguous.
        exponent: k; bins are 2^k wide.
        first: The index of the first bin.
        counts: The count of each bin, updated in place; the bins must cover all values.

    Returns:
        The exact moments of the values.
    """
    sums = np.zeros((BUCKETS, 4), np.int64)
    function, _ = _compiled()
    function(values.ctypes.data, values.size, 2.0**-exponent, first, counts.ctypes.data, sums.ctypes.data)
    total = squares = 0
    for bucket in np.flatnonzero(sums[:, 0]).tolist():
        count, fractions, low, high = sums[bucket].tolist()
        power = bucket & 0xFF
        shift = max(power, 1) - 1  # subnormal numbers have the exponent of the least normal numbers
        leading = count if power else 0
        value = ((leading << 23) + fractions) << shift
        total += -value if bucket >> 8 else value
        squares += ((leading << 46) + ((fractions << 24) if power else 0) + (high << 23) + low) << (2 * shift)
    return Moments(total, squares)


@cache
def _compiled() -> tuple[Any, LoadedObject]:
    """The compiled code as a function, and the loaded object that keeps it alive."""
    loaded = LoadedObject(compile_object(CODE, Machine.host()), "tally")
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.CFUNCTYPE(None, pointer, number, ctypes.c_double, number, pointer, pointer)
    return prototype(loaded.address), loaded
