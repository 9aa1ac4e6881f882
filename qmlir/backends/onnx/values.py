"""How each value of a function is stored as a tensor, and the casts between storages."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import constant, fused_bounds
from qmlir.backends.onnx.graph import Graph, Tensor
from qmlir.dialects.nn.movement import ReshapeOp, TransposeOp
from qmlir.dialects.nn.quantizable import QuantizableOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.ir.types import dtype_of
from qmlir.numerics import fixed_point

# ---------------------------------------------------------------------------------------------------------------
# The values of a module as tensors of an ONNX graph: their dimension orders, and the casts between storage and reals.
#
# A quantized value is stored as its integers. A form that computes with it reads its real values behind a
# DequantizeLinear. A result becomes integers by a QuantizeLinear, after its fused clamp and a clamp to narrow storage.
#
# Spatial operations are channels-last in the module and channels-first in ONNX. The tensor of a value has the dimension
# order in which it was computed, a permutation of the value's dimensions. The tensor is transposed only if a reader
# needs another order. A transpose in the module adds no node; it only changes the recorded permutation. Therefore
# consecutive transposes cancel, and constants are transposed at export.


Permutation = tuple[int, ...]
"""Dimension i of the tensor is dimension permutation[i] of the value."""

Key = tuple[int, ...]
"""A permutation in which all dimensions of size 1 count as equal; equal keys mean the same arrangement of elements."""


def channels_first(rank: int) -> Permutation:
    """Returns the permutation from [N, …, C] to [N, C, …]."""
    return (0, rank - 1, *range(1, rank - 1))


def identity(rank: int) -> Permutation:
    """Returns the module's own dimension order."""
    return tuple(range(rank))


def composed(outer: Permutation, inner: Permutation) -> Permutation:
    """Returns the permutation that applies `inner`, then `outer`."""
    return tuple(inner[p] for p in outer)


def inverse(permutation: Permutation) -> Permutation:
    """Returns the inverse of a permutation."""
    return tuple(permutation.index(i) for i in range(len(permutation)))


SHIFT = 128
"""What is added to signed bytes, and to their zero points, to store the same real values as unsigned bytes."""


class Values:
    """The tensors that hold the values of a function.

    graph      the graph to which nodes are added
    unsigned   whether computed signed bytes are stored as unsigned bytes, which onnxruntime multiplies much faster on
               x86; the real values are the same. Constants, arguments and results of the function stay signed.
    """

    def __init__(self, graph: Graph, *, unsigned: bool = False):
        self.graph, self.unsigned = graph, unsigned
        self._stored: dict[SSAValue, dict[Key, tuple[Permutation, Tensor]]] = {}
        self._real: dict[tuple[Tensor, UniformType], Tensor] = {}

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def order(self, value: SSAValue) -> Permutation:
        """Returns a dimension order in which a tensor of the value exists, or the value's own order if none exists."""
        forms = self._stored.get(value)
        return next(iter(forms.values()))[0] if forms else identity(len(shape_of(value)))

    def stored(self, value: SSAValue, permutation: Permutation | None = None) -> Tensor:
        """Returns the tensor that stores a value in a dimension order, by default the value's own.

        The tensor holds the integers of a quantized value, which may be `SHIFT` larger (`unsigned`), else the elements.
        """
        permutation = identity(len(shape_of(value))) if permutation is None else permutation
        forms = self._stored.setdefault(value, {})
        key = _key(value, permutation)
        if key not in forms:
            if (array := constant(value)) is not None:
                made = self.graph.constant(array.transpose(permutation), tensor_name(value))
            else:
                made = self._transposed(value, permutation)
            forms[key] = (permutation, made)
        return forms[key][1]

    def integers(self, value: SSAValue, permutation: Permutation | None = None) -> Tensor:
        """Returns the tensor that stores a value in the value's own type, even if `stored` has unsigned bytes."""
        held = self.stored(value, permutation)
        element = element_of(value)
        if not isinstance(element, UniformType) or held.dtype == element.numpy_dtype:
            return held
        # Exact: n · scale / scale rounds to n for the few bits of n.
        axes = identity(len(shape_of(value))) if permutation is None else permutation
        return self._quantized(self.real(value, permutation), element, axes, element.numpy_dtype)

    def _transposed(self, value: SSAValue, permutation: Permutation) -> Tensor:
        """Transposes a value's tensor to a new dimension order; a quantized value is transposed between casts."""
        held = self.order(value)
        moved = self.graph.node("Transpose", self.real(value, held), perm=composed(permutation, inverse(held)))
        element = element_of(value)
        if not isinstance(element, UniformType):
            return moved
        return self._quantized(moved, element, permutation, self._written(value))

    def real(self, value: SSAValue, permutation: Permutation | None = None) -> Tensor:
        """Returns the tensor of a value's real values in a dimension order, dequantized if the value is quantized."""
        permutation = identity(len(shape_of(value))) if permutation is None else permutation
        stored, element = self.stored(value, permutation), element_of(value)
        if not isinstance(element, UniformType):
            return stored
        if (stored, element) not in self._real:
            real = self._real[stored, element] = self.dequantized(stored, element, permutation)
            name = tensor_name(value)
            real.wanted = f"{name}_dequantized" if name else real.wanted
        return self._real[stored, element]

    def widened(self, value: SSAValue, permutation: Permutation) -> Tensor:
        """Returns the real values of a constant of a lower rank, with leading dimensions of size 1, permuted."""
        array, element = constant(value), element_of(value)
        assert array is not None
        missing = len(permutation) - array.ndim
        wide = array.reshape((*[1] * missing, *array.shape)).transpose(permutation)
        stored = self.graph.constant(wide, tensor_name(value))
        if not isinstance(element, UniformType):
            return stored
        return self.dequantized(stored, element, tuple(p - missing for p in permutation))

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def define(self, value: SSAValue, tensor: Tensor, permutation: Permutation | None = None) -> None:
        """Records the real values of an operation's result, after the fused clamp and the QuantizeLinear it needs."""
        self.name(value, tensor)
        y = self.bounded(value, tensor)
        if y is not tensor and (name := tensor_name(value)):
            tensor.wanted, y.wanted = f"{name}/{tensor_kind(tensor)}", name
        if isinstance(element_of(value), UniformType):
            self.quantize(value, y, permutation)
        else:
            self.hold(value, y, permutation)

    def name(self, value: SSAValue, tensor: Tensor) -> None:
        """Names a tensor after a value, and the node that computes the tensor after the value's operation."""
        assert isinstance(value.owner, Operation)
        tensor.wanted = tensor_name(value) or tensor.wanted
        if tensor.node is not None:
            tensor.node.wanted = node_name(value.owner)

    def bounded(self, value: SSAValue, x: Tensor) -> Tensor:
        """Clips real values to the bounds that an operation's fused clamp and its result's storage range set."""
        element, (low, high) = element_of(value), fused_bounds(value.owner)
        if isinstance(element, UniformType):
            low, high = _limits(element, low, high)
        return self.clipped(x, low, high)

    def clipped(self, x: Tensor, low: float | None, high: float | None) -> Tensor:
        """Clips real values to two bounds, either of which may be None."""
        if low is None and high is None:
            return x
        if low == 0 and high is None:
            return self.graph.node("Relu", x)
        bounds = [None if b is None else self.graph.constant(np.array(b, x.dtype)) for b in (low, high)]
        return self.graph.node("Clip", x, *bounds)

    def quantize(self, value: SSAValue, x: Tensor, permutation: Permutation | None = None, name: str = "") -> None:
        """Quantizes real values and records the result as the tensor of a value.

        Args:
            value: The quantized value.
            x: The tensor of its real values.
            permutation: The dimension order of the tensor.
            name: The name to use if the value has no tensor name.
        """
        permutation = identity(len(shape_of(value))) if permutation is None else permutation
        element = element_of(value)
        assert isinstance(element, UniformType)
        y = self._quantized(x, element, permutation, self._written(value))
        if name := tensor_name(value) or name:
            y.wanted = f"{name}_quantized"
        self.hold(value, y, permutation)

    def view(self, value: SSAValue, source: SSAValue, permutation: Permutation) -> None:
        """Records that dimension i of a value is dimension permutation[i] of another value; adds no node."""
        if (array := constant(source)) is not None:
            self.hold(value, self.graph.constant(array, tensor_name(source)), inverse(permutation))
            return
        for held, tensor in self._stored[source].values():
            self.hold(value, tensor, composed(held, inverse(permutation)))

    def same(self, value: SSAValue, source: SSAValue) -> None:
        """Records that what stores one value stores another one too."""
        self.view(value, source, identity(len(shape_of(value))))

    def hold(self, value: SSAValue, tensor: Tensor, permutation: Permutation | None = None) -> None:
        """Records the tensor that stores a value in a dimension order, unless one is recorded for that order."""
        permutation = identity(len(shape_of(value))) if permutation is None else permutation
        self._stored.setdefault(value, {}).setdefault(_key(value, permutation), (permutation, tensor))

    # -----------------------------------------------------------------------------------------------------------
    # Integers as real values

    def _written(self, value: SSAValue) -> np.dtype[Any]:
        """Returns the type to which a value's real values are quantized.

        Signed bytes that an operation reads or gives which rounds by their sign stay signed, also if it reads a view of
        them: a shifted zero would move halves.
        """
        element = element_of(value)
        assert isinstance(element, UniformType)
        dtype = _storage(element)
        if not self.unsigned or dtype != np.int8 or element.axis is not None:
            return dtype
        around = (value.owner, *_readers(value))
        by_sign = any(isinstance(op, QuantizableOp) and op.ROUNDS_BY_SIGN for op in around)
        return dtype if by_sign else np.dtype(np.uint8)

    def _quantized(self, x: Tensor, element: UniformType, permutation: Permutation, dtype: np.dtype[Any]) -> Tensor:
        """Adds a QuantizeLinear of real values to integers of a type, the element's own or its unsigned one."""
        return self.graph.node("QuantizeLinear", x, *self.parameters(element, dtype), dtype=dtype,
                               axis=_axis(element, permutation))  # fmt: skip

    def dequantized(self, q: Tensor, element: UniformType, permutation: Permutation) -> Tensor:
        """Adds a DequantizeLinear of stored integers."""
        if element.expressed != f32:
            raise UnsupportedError("must stand for f32", str(element), "quantize the model again from its f32 form")
        scale, points = self.parameters(element, q.dtype)
        return self.graph.node("DequantizeLinear", q, scale, points, dtype=np.dtype(np.float32),
                               axis=_axis(element, permutation))  # fmt: skip

    def number(self, value: SSAValue, real: float) -> Array:
        """Returns a real number as `real` represents it; for a quantized value, the nearest that it can store."""
        element = element_of(value)
        if not isinstance(element, UniformType):
            return np.array(real)
        return fixed_point.dequantize(np.array(nearest(real, element)), element.scale, element.zero_point)

    def parameters(self, element: UniformType, dtype: np.dtype[Any]) -> tuple[Tensor, Tensor]:
        """Returns scale and zero point as constants; scalars per tensor, lists per axis.

        Args:
            element: The quantized type.
            dtype: The type of the stored integers; unsigned for a signed element if they are `SHIFT` larger.
        """
        limits = np.iinfo(element.numpy_dtype if dtype.itemsize == 1 else dtype)
        if not all(limits.min <= z <= limits.max for z in element.zero_points):
            got = f"{min(element.zero_points)} to {max(element.zero_points)}"
            raise UnsupportedError(
                f"must have zero points that {limits.dtype} holds", got, "choose parameters within the storage"
            )
        shift = SHIFT if dtype == np.uint8 and element.is_signed else 0
        scales, points = np.array(element.scales, np.float32), (np.array(element.zero_points) + shift).astype(dtype)
        if element.axis is None:
            scales, points = scales.reshape(()), points.reshape(())
        return self.graph.constant(scales), self.graph.constant(points)


class StoredValues(Values):
    """Values for forms on integers: `real` returns the stored integers, and no casts are added."""

    def __init__(self, values: Values):
        super().__init__(values.graph, unsigned=values.unsigned)
        self._stored = values._stored

    def real(self, value: SSAValue, permutation: Permutation | None = None) -> Tensor:
        """Returns the stored integers."""
        return self.stored(value, permutation)

    def dequantized(self, q: Tensor, element: UniformType, permutation: Permutation) -> Tensor:
        """Returns the integers unchanged."""
        return q

    def _quantized(self, x: Tensor, element: UniformType, permutation: Permutation, dtype: np.dtype[Any]) -> Tensor:
        return x

    def bounded(self, value: SSAValue, x: Tensor) -> Tensor:
        """Clips integers to the stored bounds that an operation's fused clamp and its result's storage range set."""
        element = element_of(value)
        if not isinstance(element, UniformType):
            return super().bounded(value, x)
        limits = _stored_limits(element, *fused_bounds(value.owner))
        if limits == (None, None):
            return x
        return self.graph.node("Clip", x, *(None if q is None else self.graph.constant(np.array(q, x.dtype))
                                            for q in limits))  # fmt: skip

    def number(self, value: SSAValue, real: float) -> Array:
        """Returns the stored integer nearest to a real number; the number itself if the value is not quantized."""
        element = element_of(value)
        return np.array(nearest(real, element) if isinstance(element, UniformType) else real)


def _readers(value: SSAValue) -> list[Operation]:
    """Returns the operations that read a value, or a view of it."""
    found, waiting = list[Operation](), [value]
    while waiting:
        for use in waiting.pop().uses:
            found.append(use.operation)
            if isinstance(use.operation, TransposeOp | ReshapeOp):
                waiting.append(use.operation.y)
    return found


def stored_dtype(value: SSAValue) -> np.dtype[Any]:
    """Returns the element type in which a value is stored."""
    element = element_of(value)
    return element.numpy_dtype if isinstance(element, UniformType) else dtype_of(element)


def tensor_kind(tensor: Tensor) -> str:
    """Returns the operator that computes a tensor, or "constant"."""
    return tensor.node.kind if tensor.node is not None else "constant"


def _key(value: SSAValue, permutation: Permutation) -> Key:
    shape = shape_of(value)
    return tuple(p if shape[p] != 1 else -1 for p in permutation)


def _axis(element: UniformType, permutation: Permutation) -> int | None:
    return None if element.axis is None else permutation.index(element.axis)


def _storage(element: UniformType) -> np.dtype[Any]:
    """Returns the type to which QuantizeLinear quantizes; raises UnsupportedError for storage of more than 16 bits."""
    if element.storage_width > 16:
        raise UnsupportedError("must store 16 bits or less", str(element), "keep its result float")
    if element.expressed != f32:
        raise UnsupportedError("must stand for f32", str(element), "quantize the model again from its f32 form")
    return element.numpy_dtype


def _stored_limits(element: UniformType, low: float | None, high: float | None) -> tuple[int | None, int | None]:
    """Returns bounds as stored integers, by default the ends of the storage range; None where saturation suffices."""
    dtype = np.iinfo(_storage(element))
    least = element.storage_min if low is None else nearest(low, element)
    most = element.storage_max if high is None else nearest(high, element)
    return None if least == dtype.min else least, None if most == dtype.max else most


def _limits(element: UniformType, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Returns the real bounds that must be clipped before QuantizeLinear; None where its saturation suffices."""
    bounds: list[float | None] = []
    for bound, q in zip((low, high), _stored_limits(element, low, high), strict=True):
        if q is None:
            bounds.append(None)
        elif element.axis is not None:
            raise UnsupportedError(
                "must use all of its storage, being quantized per axis", str(element), "widen its range"
            )
        else:
            real = float(fixed_point.dequantize(np.array(q), element.scale, element.zero_point))
            # The bound itself is more readable than q's real value; it is used if float32 rounds it to q.
            float32 = np.float32(0 if bound is None else bound) / np.float32(element.scale)
            keeps = bound is not None and np.rint(float32) + element.zero_point == q
            bounds.append(bound if keeps else real)
    return bounds[0], bounds[1]


def nearest(real: float, element: UniformType) -> int:
    """Returns the stored integer nearest to a real number."""
    limits = element.storage_min, element.storage_max
    return int(fixed_point.quantize(np.array(real), element.scale, element.zero_point, *limits, np.dtype(np.int64)))
