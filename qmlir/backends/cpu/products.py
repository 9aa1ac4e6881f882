"""Sums of products of float32 by the processor's fused multiply-add, with the bits of `numerics/products.py`.

Quantization evaluates a network on floats again and again. The instruction rounds x·w + s once, as numpy's emulation
does in some fifty times the time.

Of matrices, a tile has 4 rows of 16 sums, which stay in registers while k rises. Each factor of `w` is copied once to a
panel [k, 16], for all rows. At the ends of rows and columns a tile computes the last row or column again instead of
others: the same numbers are stored twice.

Sums that share no factor along their last axis, as the channels of a depthwise convolution, are computed by 16
channels, which lie side by side in memory, and one by one at their end.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import numpy as np

from qmlir.backends.cpu.llvm import LoadedObject, Machine, compile_object
from qmlir.numerics import Array
from qmlir.numerics.products import added_by

ROWS, LANES = 4, 16
"""Rows and columns of a tile."""

LEAST, FEW = 1 << 22, 1 << 12
"""The products for which the code is compiled, in about a quarter of a second; and for which it is called then."""

_met = [0]
"""The products that were met so far: a network may have many small sums."""

P = ParamSpec("P")
T = TypeVar("T")


def adding_in_machine_code(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function so that the evaluations of networks in it add float32 products in machine code."""

    @wraps(function)
    def adding(*args: P.args, **kwargs: P.kwargs) -> T:
        with added_by(add_in_machine_code):
            return function(*args, **kwargs)

    return adding


def add_in_machine_code(total: Array, x: Array, w: Array) -> bool:
    """Adds x[k] · w[k] to `total` for k = 0, 1, …; returns whether it did, which it does for products of matrices.

    Args:
        total: The sums, changed in place.
        x: Factors [K, …], whose other dimensions are those of `total`, or 1.
        w: The other factors, likewise.
    """
    axes, work = range(total.ndim), total.size * len(x)
    _met[0] += work
    if work < FEW or _met[0] < LEAST:
        return False
    if not all(v.strides[i] % v.itemsize == 0 for v in (total, x, w) for i in range(v.ndim)):
        return False
    if _is_by_channel(total, x, w):
        _add_by_channel(total, x, w)
        return True
    columns = [i for i in axes if total.shape[i] > 1 and (x.shape[i + 1] == 1) != (w.shape[i + 1] == 1)]
    if not columns:
        return False
    column = max(columns, key=lambda i: total.shape[i])
    if x.shape[column + 1] > 1:
        x, w = w, x  # now x is the same in all columns
    row = max((i for i in axes if w.shape[i + 1] == 1), key=lambda i: total.shape[i], default=None)
    rest = sorted((i for i in axes if i not in (row, column)), key=lambda i: total.shape[i])
    batch = rest.pop() if rest else None
    panel = np.empty((len(x), LANES), np.float32)
    sizes = [*(1 if i is None else total.shape[i] for i in (batch, row, column)), len(x)]
    steps = [*_steps(total, 0, batch, row, column), *_steps(x, 1, batch, row), x.strides[0] // 4]
    table = np.array([*sizes, *steps, *_steps(w, 1, batch, column), w.strides[0] // 4], np.int64)
    function = _compiled("add_products")
    for at in _places(rest, total, x, w):
        function(*at, panel.ctypes.data, table.ctypes.data)
    return True


def _is_by_channel(total: Array, x: Array, w: Array) -> bool:
    """Whether sums and both factors lie side by side along the last axis."""
    return total.shape[-1] > 1 and all(v.shape[-1] > 1 and v.strides[-1] == v.itemsize for v in (total, x, w))


def _add_by_channel(total: Array, x: Array, w: Array) -> None:
    """Adds products whose factors both differ along the last axis, as `add_in_machine_code` does."""
    *rest, batch, row = [None, None, *sorted(range(total.ndim - 1), key=lambda i: total.shape[i])]
    sizes = [*(1 if i is None else total.shape[i] for i in (batch, row)), total.shape[-1], len(x)]
    steps = [*_steps(total, 0, batch, row), *_steps(x, 1, batch, row), x.strides[0] // 4]
    table = np.array([*sizes, *steps, *_steps(w, 1, batch, row), w.strides[0] // 4], np.int64)
    function = _compiled("add_by_channel")
    for at in _places([i for i in rest if i is not None], total, x, w):
        function(*at, table.ctypes.data)


def _places(axes: Sequence[int], total: Array, x: Array, w: Array) -> Iterator[list[int]]:
    """Yields the addresses of the three arrays at each place along some axes of the sums."""
    for place in np.ndindex(*(total.shape[i] for i in axes)):
        yield [v.ctypes.data + sum(_stride(v, i + d) * n for i, n in zip(axes, place, strict=True))
               for v, d in ((total, 0), (x, 1), (w, 1))]  # fmt: skip


def _steps(values: Array, first: int, *axes: int | None) -> list[int]:
    return [0 if i is None else _stride(values, i + first) // values.itemsize for i in axes]


def _stride(values: Array, axis: int) -> int:
    """The bytes from an element to the next along an axis; 0 along which the values are the same."""
    return 0 if values.shape[axis] == 1 else values.strides[axis]


_lock = Lock()


def _compiled(name: str) -> Any:
    with _lock:  # threads that ask at the same time compile once
        return _compile(name)


@cache
def _compile(name: str) -> Any:
    text, count = {"add_products": (_text(), 5), "add_by_channel": (_text_by_channel(), 4)}[name]
    loaded = LoadedObject(compile_object("\n".join(text), Machine.host()), name)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(loaded.address)
    function.loaded = loaded  # pyright: ignore[reportAttributeAccessIssue]
    return function


TABLE = ("batches", "rows", "columns", "terms", "tb", "tm", "tn", "xb", "xm", "xk", "wb", "wn", "wk")
"""What the code is told: four sizes, then strides in elements, of sums, of x and of w."""


def _text() -> Iterator[str]:
    """LLVM IR of `add_products(sums, x, w, panel, table)`."""
    lanes = f"<{LANES} x float>"
    yield f"declare {lanes} @llvm.fma.v{LANES}f32({lanes}, {lanes}, {lanes})"
    yield "declare i64 @llvm.smin.i64(i64, i64)"
    yield "define void @add_products(ptr %sums, ptr noalias %x, ptr noalias %w, ptr noalias %panel, ptr %table) {"
    yield "entry:"
    for i, name in enumerate(TABLE):
        yield f"  %{name}.at = getelementptr i64, ptr %table, i64 {i}"
        yield f"  %{name} = load i64, ptr %{name}.at"
    yield from ("  %last.row = sub i64 %rows, 1", "  %last.column = sub i64 %columns, 1", "  br label %batch")
    yield from ("batch:", "  %b = phi i64 [ 0, %entry ], [ %b.next, %batched ]")
    for values, name in (("sums", "t"), ("x", "x"), ("w", "w")):
        yield f"  %{name}.off = mul i64 %b, %{name}b"
        yield f"  %{name}.base = getelementptr float, ptr %{values}, i64 %{name}.off"
    yield from ("  br label %column", "column:", "  %n = phi i64 [ 0, %batch ], [ %n.next, %columned ]")
    for j in range(LANES):
        yield f"  %n{j}.all = add i64 %n, {j}"
        yield f"  %n{j} = call i64 @llvm.smin.i64(i64 %n{j}.all, i64 %last.column)"
        yield f"  %w{j}.off = mul i64 %n{j}, %wn"
        yield f"  %w{j} = getelementptr float, ptr %w.base, i64 %w{j}.off"
        yield f"  %t{j} = mul i64 %n{j}, %tn"
    yield from ("  br label %pack", "pack:", "  %p = phi i64 [ 0, %column ], [ %p.next, %pack ]")
    yield from ("  %p.off = mul i64 %p, %wk", f"  %p.to = getelementptr {lanes}, ptr %panel, i64 %p")
    held = "poison"
    for j in range(LANES):
        yield f"  %p{j}.at = getelementptr float, ptr %w{j}, i64 %p.off"
        yield f"  %p{j}.one = load float, ptr %p{j}.at"
        yield f"  %p{j} = insertelement {lanes} {held}, float %p{j}.one, i64 {j}"
        held = f"%p{j}"
    yield from (f"  store {lanes} {held}, ptr %p.to, align 4", *_again("p", 1, "terms", "pack", "row.begin"))
    yield from ("row.begin:", "  br label %row", "row:", "  %m = phi i64 [ 0, %row.begin ], [ %m.next, %rowed ]")
    for r in range(ROWS):
        yield f"  %m{r}.all = add i64 %m, {r}"
        yield f"  %m{r} = call i64 @llvm.smin.i64(i64 %m{r}.all, i64 %last.row)"
        yield f"  %x{r}.off = mul i64 %m{r}, %xm"
        yield f"  %x{r} = getelementptr float, ptr %x.base, i64 %x{r}.off"
        yield f"  %s{r}.off = mul i64 %m{r}, %tm"
        yield f"  %s{r} = getelementptr float, ptr %t.base, i64 %s{r}.off"
        held = "poison"
        for j in range(LANES):
            yield f"  %s{r}.{j} = getelementptr float, ptr %s{r}, i64 %t{j}"
            yield f"  %a{r}.{j}.one = load float, ptr %s{r}.{j}"
            yield f"  %a{r}.{j} = insertelement {lanes} {held}, float %a{r}.{j}.one, i64 {j}"
            held = f"%a{r}.{j}"
    yield from ("  br label %term", "term:", "  %k = phi i64 [ 0, %row ], [ %k.next, %term ]")
    for r in range(ROWS):
        yield f"  %acc{r} = phi {lanes} [ %a{r}.{LANES - 1}, %row ], [ %acc{r}.next, %term ]"
    yield from (f"  %k.at = getelementptr {lanes}, ptr %panel, i64 %k", f"  %f = load {lanes}, ptr %k.at, align 4")
    yield "  %k.off = mul i64 %k, %xk"
    for r in range(ROWS):
        yield f"  %k{r}.at = getelementptr float, ptr %x{r}, i64 %k.off"
        yield f"  %k{r}.one = load float, ptr %k{r}.at"
        yield f"  %k{r}.head = insertelement {lanes} poison, float %k{r}.one, i64 0"
        yield f"  %k{r} = shufflevector {lanes} %k{r}.head, {lanes} poison, <{LANES} x i32> zeroinitializer"
        yield f"  %acc{r}.next = call {lanes} @llvm.fma.v{LANES}f32({lanes} %k{r}, {lanes} %f, {lanes} %acc{r})"
    yield from (*_again("k", 1, "terms", "term", "rowed"), "rowed:")
    for r in range(ROWS):
        for j in range(LANES):
            yield f"  %o{r}.{j} = extractelement {lanes} %acc{r}.next, i64 {j}"
            yield f"  store float %o{r}.{j}, ptr %s{r}.{j}"
    yield from (*_again("m", ROWS, "rows", "row", "columned"), "columned:")
    yield from (*_again("n", LANES, "columns", "column", "batched"), "batched:")
    yield from (*_again("b", 1, "batches", "batch", "end"), "end:", "  ret void", "}")


BY_CHANNEL = ("batches", "rows", "columns", "terms", "tb", "tm", "xb", "xm", "xk", "wb", "wm", "wk")
"""What the code for channels is told: four sizes, then strides in elements, of sums, of x and of w."""


def _text_by_channel() -> Iterator[str]:
    """LLVM IR of `add_by_channel(sums, x, w, table)`."""
    yield f"declare <{LANES} x float> @llvm.fma.v{LANES}f32(<{LANES} x float>, <{LANES} x float>, <{LANES} x float>)"
    yield "declare float @llvm.fma.f32(float, float, float)"
    yield "define void @add_by_channel(ptr %sums, ptr noalias %x, ptr noalias %w, ptr %table) {"
    yield "entry:"
    for i, name in enumerate(BY_CHANNEL):
        yield f"  %{name}.at = getelementptr i64, ptr %table, i64 {i}"
        yield f"  %{name} = load i64, ptr %{name}.at"
    yield from (f"  %blocked = and i64 %columns, {-LANES}", "  br label %batch")
    yield from ("batch:", "  %b = phi i64 [ 0, %entry ], [ %b.next, %batched ]", "  br label %row")
    yield from ("row:", "  %m = phi i64 [ 0, %batch ], [ %m.next, %rowed ]")
    for values, name in (("sums", "t"), ("x", "x"), ("w", "w")):
        yield from (f"  %{name}.b = mul i64 %b, %{name}b", f"  %{name}.m = mul i64 %m, %{name}m")
        yield f"  %{name}.off = add i64 %{name}.b, %{name}.m"
        yield f"  %{name}.row = getelementptr float, ptr %{values}, i64 %{name}.off"
    yield from ("  %any.block = icmp sgt i64 %blocked, 0", "  br i1 %any.block, label %block, label %blocks.end")
    yield from _columns("block", "0", LANES, "blocked", f"<{LANES} x float>", f"v{LANES}f32", "row")
    yield from ("blocks.end:", "  %any.one = icmp slt i64 %blocked, %columns")
    yield "  br i1 %any.one, label %one, label %rowed"
    yield from _columns("one", "%blocked", 1, "columns", "float", "f32", "blocks.end")
    yield from ("one.end:", "  br label %rowed", "rowed:", *_again("m", 1, "rows", "row", "batched"))
    yield from ("batched:", *_again("b", 1, "batches", "batch", "end"), "end:", "  ret void", "}")


def _columns(loop: str, first: str, step: int, size: str, type: str, of: str, before: str) -> Iterator[str]:
    """A loop over the columns of a row, `step` at a time, from block `before`; it ends at the block `LOOP.end`."""
    end = "blocks.end" if loop == "block" else f"{loop}.end"
    p = f"%{loop}.c"
    yield from (f"{loop}:", f"  {p} = phi i64 [ {first}, %{before} ], [ {p}.next, %{loop}.done ]")
    for name in "txw":
        yield f"  {p}.{name} = getelementptr float, ptr %{name}.row, i64 {p}"
    yield from (f"  {p}.start = load {type}, ptr {p}.t, align 4", f"  br label %{loop}.term", f"{loop}.term:")
    yield f"  {p}.k = phi i64 [ 0, %{loop} ], [ {p}.k.next, %{loop}.term ]"
    yield f"  {p}.sum = phi {type} [ {p}.start, %{loop} ], [ {p}.sum.next, %{loop}.term ]"
    for name in "xw":
        yield f"  {p}.{name}.off = mul i64 {p}.k, %{name}k"
        yield f"  {p}.{name}.at = getelementptr float, ptr {p}.{name}, i64 {p}.{name}.off"
        yield f"  {p}.{name}.v = load {type}, ptr {p}.{name}.at, align 4"
    yield f"  {p}.sum.next = call {type} @llvm.fma.{of}({type} {p}.x.v, {type} {p}.w.v, {type} {p}.sum)"
    yield from _again(f"{loop}.c.k", 1, "terms", f"{loop}.term", f"{loop}.done")
    yield from (f"{loop}.done:", f"  store {type} {p}.sum.next, ptr {p}.t, align 4")
    yield from _again(f"{loop}.c", step, size, loop, end)


def _again(name: str, step: int, size: str, loop: str, then: str) -> tuple[str, ...]:
    """The end of a loop."""
    return (
        f"  %{name}.next = add i64 %{name}, {step}",
        f"  %{name}.more = icmp slt i64 %{name}.next, %{size}",
        f"  br i1 %{name}.more, label %{loop}, label %{then}",
    )
