"""Selection by indices: gathers, scatters and top-k.

Gathers and `nn.scatter_nd` move elements of any type unchanged; on quantized types they move the stored integers.
Indices are i32 or i64 and count from zero; a negative index counts from the end. An index that still lies outside the
dimension selects the nearest element inside, so that computed indices never reach beyond a buffer.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import AxisOp, Elements, NNOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import ALL_STORAGES
from qmlir.ir.interfaces import Array, Shape, TensorOp, element_of, shape_of
from qmlir.ir.samples import Axes, MixesSamples, kept_axis


def places(indices: Array, size: int | Array) -> Array:
    """Resolves indices to int64 places in [0, size): negative indices count from the end, all are clipped to the range.

    If `size` is an array, it gives the size for each entry of the indices' last dimension.
    """
    wide = indices.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + size, wide), 0, size - 1)


class IndexedOp(MovementOp, abc.ABC):
    """A data movement whose last operand holds indices.

    (I1) indices are i32 or i64
    """

    def data_operands(self) -> Sequence[SSAValue]:
        return self.operands[:-1]

    def verify_(self) -> None:
        super().verify_()
        check_indices(self, self.operands[-1])


def check_indices(op: TensorOp, indices: SSAValue) -> None:
    """Raises VerifyException unless the elements of `indices` are i32 or i64."""
    if element_of(indices) not in (i32, i64):  # I1
        raise VerifyException(f"'{op.name}' needs indices of i32 or i64, got {element_of(indices)}")


@irdl_op_definition
class GatherOp(IndexedOp):
    """Elements of x at `indices` along `axis`; in the result, the dimensions of the indices replace the axis.

    (C1) the axis lies within the rank of x and is not empty
    """

    name = "nn.gather"
    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr.constr(i64))

    assembly_format = "$x `,` $indices attr-dict `:` type($x) `,` type($indices) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        x, axis = shape_of(self.x), self.axis.value.data
        if not 0 <= axis < len(x) or x[axis] == 0:  # C1
            raise VerifyException(f"'{self.name}' needs an axis that is not empty, got {axis} of {list(x)}")
        return [(*x[:axis], *shape_of(self.indices), *x[axis + 1 :])]

    def sample_axis(self, axes: Axes) -> int:
        along, (data, indices) = self.axis.value.data, axes
        if data is None and indices is not None:  # a table, in which each sample selects by indices of its own
            return along + indices
        axis = kept_axis(axes, [along])
        return axis if axis < along else axis + len(shape_of(self.indices)) - 1

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices = inputs
        axis = self.axis.value.data
        return (np.take(x, places(indices, x.shape[axis]), axis=axis),)


def rows_of(op: TensorOp, x: Shape, indices: Shape) -> tuple[Shape, Shape]:
    """(shape of the list of rows, shape of one row) that indices […, k] select from x.

    Raises:
        VerifyException: The indices have no dimension, k exceeds the rank of x, or one of the first k dimensions of x
            is empty.
    """
    depth = indices[-1] if indices else -1
    if not 0 <= depth <= len(x) or 0 in x[:depth]:
        raise VerifyException(f"'{op.name}' cannot find places {list(indices)} in {list(x)}")
    return indices[:-1], x[depth:]


def coordinates(indices: Array, shape: Shape) -> tuple[Array, ...]:
    """The int64 places that indices […, k] select in a tensor, one array for each of its first k dimensions."""
    return tuple(places(indices[..., d], shape[d]) for d in range(indices.shape[-1]))


@irdl_op_definition
class GatherNDOp(IndexedOp):
    """y[i, :] = x[indices[i, 0], …, indices[i, k−1], :], where i runs over all dimensions of the indices but the last.

    (C1) the last dimension k of the indices is at most the rank of x, and the first k dimensions of x are not empty
    """

    name = "nn.gather_nd"
    x = operand_def(TensorType)
    indices = operand_def(TensorType)

    assembly_format = "$x `,` $indices attr-dict `:` type($x) `,` type($indices) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        listed, row = rows_of(self, shape_of(self.x), shape_of(self.indices))  # C1
        return [(*listed, *row)]

    def sample_axis(self, axes: Axes) -> int:
        depth, (data, indices) = shape_of(self.indices)[-1], axes
        if data is None and indices is not None and indices < len(shape_of(self.indices)) - 1:
            return indices
        return kept_axis(axes, range(depth)) - depth + len(shape_of(self.indices)) - 1

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices = inputs
        listed = indices.reshape(-1, indices.shape[-1])
        found = x[coordinates(listed, x.shape)] if listed.shape[1] else np.repeat(x[None], len(listed), axis=0)
        return (found.reshape(self.infer_shapes()[0]),)


def scattered_shape(op: TensorOp, x: Shape, updates: Shape, indices: Shape) -> Shape:
    """The shape of x; raises VerifyException unless `updates` is the shape of the rows that the indices select."""
    listed, row = rows_of(op, x, indices)
    if updates != (*listed, *row):
        raise VerifyException(f"'{op.name}' needs updates {[*listed, *row]}, got {list(updates)}")
    return x


def scattered_axis(axes: Axes, indices: Shape) -> int:
    """The axis of the samples in x, which lies within its rows, and at the same place within the updates' rows."""
    depth = indices[-1]
    if axes[2] is not None or axes[0] is None or axes[0] < depth or axes[1] != axes[0] - depth + len(indices) - 1:
        raise MixesSamples("scatters the rows of a sample into those of others")
    return axes[0]


@irdl_op_definition
class ScatterNDOp(IndexedOp):
    """x with x[indices[i, 0], …, indices[i, k−1], :] replaced by updates[i, :]; the last of repeated updates wins.

    (C1) the last dimension k of the indices is at most the rank of x, and the first k dimensions of x are not empty;
         the updates have the shape of the rows that the indices select
    (C2) the updates have the element type of x
    """

    name = "nn.scatter_nd"
    x = operand_def(TensorType)
    updates = operand_def(TensorType)
    indices = operand_def(TensorType)

    assembly_format = (
        "$x `,` $updates `,` $indices attr-dict `:` type($x) `,` type($updates) `,` type($indices) `->` type($y)"
    )

    def infer_shapes(self) -> Sequence[Shape]:
        if element_of(self.x) != element_of(self.updates):  # C2
            raise VerifyException(
                f"'{self.name}' needs updates of {element_of(self.x)}, got {element_of(self.updates)}"
            )
        return [scattered_shape(self, *(shape_of(o) for o in self.operands))]  # C1

    def sample_axis(self, axes: Axes) -> int:
        return scattered_axis(axes, shape_of(self.indices))

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (_scatter(*inputs, put=lambda y, at, rows: y.__setitem__(at, rows)),)


def _scatter(x: Array, updates: Array, indices: Array, put: Callable[[Array, tuple[Array, ...], Array], Any]) -> Array:
    """Calls `put(target, places, rows)` once on a copy of x, for all rows together, and returns the copy."""
    y = x.copy()
    listed = indices.reshape(-1, indices.shape[-1])
    target, at = y, coordinates(listed, x.shape)
    if not at:  # each row is all of x
        target, at = y[None], (np.zeros(len(listed), np.int64),)
    put(target, at, updates.reshape(len(listed), *x.shape[indices.shape[-1] :]))
    return y


REDUCTIONS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
"""The function by which nn.scatter_reduce_nd combines an element and its update, by the name of the reduction."""


@irdl_op_definition
class ScatterReduceNDOp(NNOp):
    """x with x[indices[i, 0], …, indices[i, k−1], :] combined with updates[i, :], for each i in order.

    reduction   "add", "mul", "max" or "min"; each step is rounded separately, integers wrap around

    (C1) as for nn.scatter_nd
    (C2) the reduction is one of the four
    """

    name = "nn.scatter_reduce_nd"
    WHY_FLOAT: ClassVar[str] = (
        "it combines as many updates at a place as the data say, and no accumulator is wide enough for all"
    )

    x = operand_def(TensorType)
    updates = operand_def(TensorType)
    indices = operand_def(TensorType)
    reduction = prop_def(StringAttr)
    y = result_def(TensorType)

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS

    assembly_format = (
        "$x `,` $updates `,` $indices attr-dict `:` type($x) `,` type($updates) `,` type($indices) `->` type($y)"
    )

    def data_operands(self) -> Sequence[SSAValue]:
        return [self.x, self.updates]

    def infer_shapes(self) -> Sequence[Shape]:
        if self.reduction.data not in REDUCTIONS:  # C2
            raise VerifyException(f"'{self.name}' reduces by {', '.join(REDUCTIONS)}, got {self.reduction.data}")
        return [scattered_shape(self, *(shape_of(o) for o in self.operands))]  # C1

    def sample_axis(self, axes: Axes) -> int:
        return scattered_axis(axes, shape_of(self.indices))

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return (_scatter(*inputs, put=REDUCTIONS[self.reduction.data].at),)

    def verify_(self) -> None:
        super().verify_()
        check_indices(self, self.indices)


@irdl_op_definition
class TopKOp(AxisOp):
    """The i64 indices of the k greatest elements along an axis, greatest first; without `largest`, of the k least.

    Equal elements are listed in index order; NaN is greater than all numbers.

    (C1) the axis lies within the rank of x and has at least k elements
    """

    name = "nn.top_k"
    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    YIELDS: ClassVar[Attribute | None] = i64

    k = prop_def(IntegerAttr.constr(i64))
    largest = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    def infer_shapes(self) -> Sequence[Shape]:
        x, axis, k = shape_of(self.x), self.axis.value.data, self.k.value.data
        if not 0 <= axis < len(x) or not 0 <= k <= x[axis]:  # C1
            raise VerifyException(f"'{self.name}' cannot take {k} elements along axis {axis} of {list(x)}")
        return [(*x[:axis], k, *x[axis + 1 :])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        axis, keys = self.axis.value.data, order_keys(inputs[0])
        order = np.argsort(~keys if bool(self.largest) else keys, axis=axis, kind="stable")
        return (np.take(order, np.arange(self.k.value.data), axis=axis),)


def order_keys(x: Array) -> Array:
    """Integer sort keys in the order of the numbers: −0 equals +0, NaN is greatest; complemented keys reverse it."""
    if x.dtype.kind != "f":
        return x
    signed = np.dtype(f"i{x.dtype.itemsize}")
    canonical = np.where(np.isnan(x), np.array(np.nan, x.dtype), x + x.dtype.type(0))
    bits = canonical.view(signed)
    return np.where(bits < 0, bits ^ np.iinfo(signed).max, bits)
