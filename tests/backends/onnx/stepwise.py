"""A quantized network in onnxruntime against its exact meaning, operation by operation.

onnxruntime computes each operation in float32, where sums round: now and then a stored integer differs by one. Deep
networks can make more of that than one. So here each operation is evaluated on the integers that onnxruntime had
computed for its operands, and the result compared with onnxruntime's own.

Between float operations there are no such integers: a small difference of large floats may be off by many steps. So may
a layer normalization, of which onnxruntime computes the mean in float32. Who compares networks with such parts says how
far floats may be off (`FloatErrors`).

Integers of attention are quotients of sums with exponentials of 15 bits at most, which a file has as Softmax and MatMul
on floats: what rounding the exponentials moves a result by is forgiven, as far as it reaches a step.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

import qmlir
from qmlir.compiler import main_function, to_integers
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.signature import signature_of
from tests.backends.onnx.runtime import computed, session

Array = npt.NDArray[Any]


@dataclass
class Steps:
    """How far stored integers are apart.

    compared   how many there are
    differing  how many are not equal
    most       by how much at most
    """

    compared: int = 0
    differing: int = 0
    most: int = 0

    def include(self, other: "Steps") -> None:
        """Counts what another comparison found as well."""
        self.compared += other.compared
        self.differing += other.differing
        self.most = max(self.most, other.most)

    def add(self, a: Array, b: Array, room: npt.ArrayLike = 0) -> None:
        """Compares stored integers; those within the room of each other count as equal."""
        difference = np.abs(a.astype(np.int64) - b.astype(np.int64))
        difference = np.where(difference > room, difference, 0)
        self.compared += difference.size
        self.differing += int(np.count_nonzero(difference))
        self.most = max(self.most, int(difference.max(initial=0)))


def showing_all(module: ModuleOp) -> ModuleOp:
    """The network with every quantized value among its results, as integers, after its own."""
    shown = module.clone()
    function = main_function(shown)
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    inner = [
        result
        for op in function.body.block.ops
        for result in op.results
        if is_quantized(result) and not isinstance(op, nn.ConstantOp) and result not in end.operands
    ]
    function.body.block.add_op(func.ReturnOp(*end.operands, *inner))
    end.detach()
    end.erase()
    function.res_attrs = None
    function.update_function_type()
    return shown


@dataclass(frozen=True)
class FloatErrors:
    """How far onnxruntime's float32 may be off.

    noise  of a result that is a float, in parts of each element: what cancels later is off by more
    tiny   of any result, as a real number
    """

    noise: float = 0.0
    tiny: float = 0.0


DRAWS = 8
"""Draws of noise; the room of an integer is the furthest that one of them moves it."""


def compare(
    module: ModuleOp, path: Path, samples: Iterable[Array | Mapping[str, Array]], format: str = "onnx-qdq",
    errors: FloatErrors = FloatErrors(),
) -> Steps:  # fmt: skip
    """Compares every quantized value of a network, with onnxruntime's optimizations off and as they are by default.

    Args:
        module: The network.
        path: Where the exported file goes.
        samples: Its inputs.
        format: The format of the file.
        errors: What is forgiven: by default nothing.
    """
    shown = showing_all(module)
    qmlir.export(shown, path, format=format)
    sessions = [session(path, optimized=optimized) for optimized in (False, True)]
    integers = main_function(to_integers(shown))
    steps, signature = Steps(), signature_of(integers)
    for sample in samples:
        arrays = signature.arrays(sample)
        for loaded in sessions:
            _evaluate(integers, arrays, computed(loaded, arrays), steps, errors, spelled=format == "onnx-integer")
    return steps


def _evaluate(
    function: func.FuncOp, arrays: list[Array], theirs: list[Array], steps: Steps, errors: FloatErrors, *, spelled: bool
) -> None:
    """Counts the steps of one sample; a file that spells integers out rounds exponentials as the network does."""
    end = function.body.block.last_op
    assert end is not None
    computed: dict[SSAValue, Array] = {}
    rooms: dict[SSAValue, Array] = {}
    for operand, array in zip(end.operands, theirs, strict=True):
        if is_quantized(operand):
            stored, array = _sign_shifted(_stored(operand), array)
            scales, _ = uniform(operand).parameters_along(array.ndim)
            computed[stored], rooms[stored] = array, errors.tiny / scales
    noisy = _NoisyFloats(errors.noise)
    values: dict[SSAValue, Array] = dict(zip(function.body.block.args, arrays, strict=True))
    for op in function.body.block.ops:
        if op is end:
            return
        results = getattr(op, "evaluate")(*(values[o] for o in op.operands))
        moved = noisy.moved(op, values, results)
        if isinstance(op, qint.LayerNormOp) and errors.noise:
            moved = [_room_of_mean(op, values[op.x], errors.noise)]
        if isinstance(op, qint.RowQuotientOp) and not spelled:
            moved = [_room_of_exponentials(op, values)]
        for value, array, most in zip(op.results, results, moved, strict=True):
            given = computed.get(value)
            if given is None:
                values[value] = array
            else:  # bytes have no sign here, but in the file they do
                steps.add(array.view(given.dtype), given, most + np.floor(rooms[value]))
                values[value] = given.view(array.dtype)


def _room_of_mean(op: qint.LayerNormOp, x: Array, noise: float) -> Array:
    """How far results move at most if the mean is off by some noise, in whole steps."""
    (scale, point), (step, _) = _parameters_of(op.x), _parameters_of(op.y)
    axes, count = tuple(range(op.axis.value.data, op.end.value.data)), op.formula().count
    real = scale * (x.astype(np.float64) - point)
    epsilon = op.epsilon.value.data * 2.0**-op.fraction.value.data * (scale / count) ** 2
    deviation = np.sqrt(real.var(axes, keepdims=True) + epsilon)
    return np.ceil(noise * np.abs(real.mean(axes, keepdims=True)) / (deviation * step))


def _room_of_exponentials(op: qint.RowQuotientOp, values: Mapping[SSAValue, Array]) -> Array:
    """How far exponentials that are off by half a step move results, in whole steps; 0 where that is less than one.

    With e off by d, the mean Σ e · v / Σ e of a column moves by Σ d · (v − mean) / Σ e.
    """
    product = op.acc.owner
    assert isinstance(product, qint.MatMulOp)
    v = values[product.rhs].astype(np.float64) - product.rhs_zero_point.value.data
    total = values[op.w].sum(axis=-1, keepdims=True, dtype=np.float64)
    mean = values[op.acc] / total
    away = np.abs(v[..., None, :, :] - mean[..., :, None, :]).sum(axis=-2)
    moved = 0.5 * away / total * op.unit.value.data * 2.0**-op.fraction.value.data
    return np.where(moved < 1, 0, np.floor(moved + 1))


def _parameters_of(value: SSAValue) -> tuple[float, int]:
    """The scale and zero point of stored integers, from a cast beside them, or beside what moves or shifts them."""
    waiting, seen = [(value, 0)], {value}
    for found, shift in waiting:
        beside = [o for o in (found.owner, *(use.operation for use in found.uses)) if isinstance(o, Operation)]
        for cast in beside:
            if isinstance(cast, StorageCastOp):
                type = next(uniform(v) for v in (cast.input, cast.result) if is_quantized(v))
                return type.scale, type.zero_point - shift
        others = [(v, shift) for o in beside if isinstance(o, MovementOp) for v in (*o.data_operands(), *o.results)]
        for op in beside:
            if isinstance(op, qint.LookupOp) and _only_shifts(op):
                others.append((op.y, shift + 128) if found is op.x else (op.x, shift - 128))
        waiting += [(v, s) for v, s in others if v not in seen]
        seen |= {v for v, _ in others}
    raise AssertionError("stored integers have a type")


def _only_shifts(op: qint.LookupOp) -> bool:
    """Whether a table makes unsigned bytes of signed ones."""
    return np.array_equal(op.table.array, np.arange(-128, 128).astype(np.int8) ^ -128)


class _NoisyFloats:
    """What operations give if each float result is off by some noise: that of their operands, and their own."""

    def __init__(self, noise: float):
        self.noise, self.random = noise, np.random.default_rng(0)
        self.draws: list[dict[SSAValue, Array]] = [{} for _ in range(DRAWS if noise else 0)]

    def moved(self, op: Operation, values: Mapping[SSAValue, Array], results: Sequence[Array]) -> list[npt.ArrayLike]:
        """How far noise moves each integer result at most; floats are kept for the operations behind."""
        most: list[npt.ArrayLike] = [0] * len(results)
        for draw in self.draws:
            found = results
            if any(o in draw for o in op.operands):
                found = self._evaluated(op, [draw.get(o, values[o]) for o in op.operands])
            for index, (value, exact, array) in enumerate(zip(op.results, results, found, strict=True)):
                if array.dtype.kind == "f":
                    draw[value] = np.asarray(array * (1 + self._noise(array.shape)), array.dtype)
                elif found is not results:
                    most[index] = np.maximum(most[index], np.abs(array.astype(np.int64) - exact.astype(np.int64)))
        return most

    def _noise(self, shape: tuple[int, ...]) -> Array:
        return self.random.uniform(-self.noise, self.noise, shape)

    def _evaluated(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        """The results; of a normalization with a mean that is off, which those of its operands may hide."""
        results = getattr(op, "evaluate")(*operands)
        if not isinstance(op, nn.LayerNormOp):
            return results
        x = operands[0].astype(np.float64)
        axes = tuple(range(op.axis.value.data, x.ndim))
        mean, deviation = x.mean(axes, keepdims=True), np.sqrt(x.var(axes, keepdims=True) + op.epsilon.value.data)
        return [np.asarray(y + self._noise(mean.shape) * mean / deviation, y.dtype) for y in results]


def _stored(result: SSAValue) -> SSAValue:
    """The integers behind a result.

    Those of fewer than 8 bits are computed with in bytes that have their scale and zero point; on the way out, they
    are cast to their own type through floats.
    """
    cast = result.owner
    if isinstance(cast, QuantizeCastOp) and isinstance(cast.input.owner, nn.RequantizeOp):
        source = cast.input.owner.x.owner
        if isinstance(source, DequantizeCastOp) and _same_parameters(source.input, result):
            return _stored(source.input)
    return cast.input if isinstance(cast, StorageCastOp) else result


def _same_parameters(a: SSAValue, b: SSAValue) -> bool:
    rank = len(shape_of(a))
    pairs = zip(uniform(a).parameters_along(rank), uniform(b).parameters_along(rank), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def _sign_shifted(value: SSAValue, array: Array) -> tuple[SSAValue, Array]:
    """Of a result that only shifts integers to unsigned ones the integers that the network computes with."""
    shift = value.owner
    if not isinstance(shift, qint.LookupOp) or not _only_shifts(shift):
        return value, array
    return shift.x, (array.view(np.int8) ^ -128).astype(np.int8)
