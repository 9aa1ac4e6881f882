"""Gemm, MatMul and determinants of small matrices; constant weights are brought into nn's order at import."""

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.elementwise import AddOp, MulOp, SubOp
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.values import Constant, Refusal, Value
from qmlir.frontends.windows import sliced
from qmlir.ir.interfaces import Array, Shape


@converts("Gemm")
def gemm(
    node: Node,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """y = alpha · A' · B' + beta · C; if B is constant, the product is a fully connected layer."""
    for x in (a, b):
        if node.rank(x) != 2:
            raise node.error("its factors must be matrices", f"rank {node.rank(x)}")
    if node.element(a)[0] not in "fb" and not (float(alpha).is_integer() and float(beta).is_integer()):
        raise Refusal(f"it multiplies integers by {alpha} and {beta}")
    data = node.permuted(a, (1, 0)) if transA else node.builder.ssa(a)
    rows, columns = node.shape(data)[0], node.shape(b)[0 if transB else 1]
    addend = None if beta == 0 else c
    bias = None if addend is None else _bias(node, addend, (rows, columns), beta)
    if isinstance(b, Constant):
        scaled = b if alpha == 1 else Constant((b.array * np.float32(alpha)).astype(b.array.dtype), b.name)
        weights = node.permuted(scaled, (0, 1) if transB else (1, 0))
        if addend is None or bias is not None:
            return node.compute(FullyConnectedOp, [data, weights, bias])
        y = node.compute(FullyConnectedOp, [data, weights, None], part="product")
    else:
        if addend is None and alpha == 1:
            return node.compute(MatMulOp, [data, node.permuted(b, (1, 0)) if transB else b])
        y = node.compute(MatMulOp, [data, node.permuted(b, (1, 0)) if transB else b], part="product")
        if alpha != 1:
            factor = node.number(alpha, y)
            if addend is None:
                return node.compute(MulOp, [y, factor])
            y = node.compute(MulOp, [y, factor], part="scaled")
    assert addend is not None
    return node.compute(AddOp, [y, _scaled(node, addend, beta)])


def _bias(node: Node, c: Value, shape: Shape, beta: float) -> Value | None:
    """Returns beta · C as the bias [columns] of a fully connected layer; None unless C is the same for every row."""
    if isinstance(c, Constant):
        rows = c.array.shape[0] if c.array.ndim == 2 else 1
        if c.array.ndim > 2 or rows != 1 or c.array.shape[-1:] not in ((), (1,), shape[1:]):
            return None
        row = np.broadcast_to(c.array.reshape(-1), shape[1:])
        return c if row.shape == c.array.shape and beta == 1 else Constant(_times(row, beta), c.name)
    return c if beta == 1 and node.shape(c) == shape[1:] else None


def _scaled(node: Node, c: Value, beta: float) -> Value:
    """Returns beta · C."""
    if beta == 1:
        return c
    if isinstance(c, Constant):
        return Constant(_times(c.array, beta), c.name)
    return node.compute(MulOp, [c, node.number(beta, c)], part="addend")


def _times(array: Array, factor: float) -> Array:
    return array if factor == 1 else (array * np.float32(factor)).astype(array.dtype)


@converts("MatMul")
def matmul(node: Node, a: Value, b: Value) -> Value:
    """Multiplies as numpy's matmul does; if only B is constant, a matrix B makes a fully connected layer."""
    a_shape, b_shape = node.shape(a), node.shape(b)
    if not a_shape or not b_shape:
        raise node.error("its factors must have at least 1 dimension", "a scalar")
    # As in numpy, a vector A is a row and a vector B is a column; the added dimension is dropped from the result.
    left = node.reshaped(a, (1, *a_shape)) if len(a_shape) == 1 else a
    right = node.reshaped(b, (*b_shape, 1)) if len(b_shape) == 1 else b
    full = (*node.shape(left)[:-1], node.shape(right)[-1])
    if isinstance(right, Constant) and node.rank(right) == 2 and not isinstance(left, Constant):
        y = _fully_connected(node, left, right)
    else:
        y = node.compute(MatMulOp, [left, right])
        full = node.shape(y)
    if len(a_shape) == 1:
        full = (*full[:-2], full[-1])
    return node.reshaped(y, full[:-1] if len(b_shape) == 1 else full)


def _fully_connected(node: Node, x: Value, w: Constant) -> SSAValue:
    """Adds a fully connected layer: x [B…,M,K] · w [K,N] → [B·M, N]."""
    shape = node.shape(x)
    if shape[-1] != w.array.shape[0]:
        raise node.error(
            "its factors must agree in the dimension they share", f"{list(shape)} and {list(w.array.shape)}"
        )
    rows = node.reshaped(x, (int(np.prod(shape[:-1])), shape[-1]))
    return node.compute(FullyConnectedOp, [rows, node.permuted(w, (1, 0)), None])


LARGEST_DETERMINANT = 3
"""The most rows of a matrix whose determinant is imported, as sums of products."""


@converts("Det")
def det(node: Node, x: Value) -> Value:
    """The determinant of each matrix of x: [B…, M, M] → [B…], as sums of products of elements."""
    if node.rank(x) < 2:
        raise node.error("its input must be matrices", str(list(node.shape(x))))
    *batch, rows, columns = node.shape(x)
    if rows != columns or not rows:
        raise node.error("its matrices must be square", f"{rows} by {columns}")
    if rows > LARGEST_DETERMINANT:
        raise Refusal(f"its matrices have {rows} rows, and qmlir knows determinants of up to {LARGEST_DETERMINANT}")

    def element(i: int, j: int) -> SSAValue:
        nothing = [0] * len(batch)
        return sliced(node, node.builder.ssa(x), [*nothing, i, j], [*batch, 1, 1])

    def minor(row: int, among: tuple[int, ...], is_whole: bool = False) -> SSAValue:
        """Returns the determinant of the rows from `row` on in some columns; `is_whole` makes it the node's result."""
        total: SSAValue | None = None
        for place, column in enumerate(among):
            term, rest = element(row, column), tuple(c for c in among if c != column)
            if rest:
                term = node.insert(MulOp, [term, minor(row + 1, rest)])
            if total is None:
                total = term
                continue
            add = node.compute if is_whole and column == among[-1] else node.insert
            total = add(SubOp if place % 2 else AddOp, [total, term])
        assert total is not None
        return total

    return node.reshaped(minor(0, tuple(range(rows)), is_whole=True), batch)
