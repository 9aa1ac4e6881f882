"""Splits the error that each quantized operation makes by itself among its causes.

The operation y = f(x, w) reads the float network's tensors x. Six results of it are computed in turn; each adds one
cause to the result before:

    y₀  the float network's tensor
    y₁  f on floats, with the stored weights and bias          y₁ − y₀: weights
    y₂  … and x within the range of its type                   y₂ − y₁: clipping of the data
    y₃  … and x rounded to its steps                           y₃ − y₂: rounding of the data
    y₄  y₃ within the range of the result's type               y₄ − y₃: clipping of the result
    y₅  y₄ rounded to the steps of the result                  y₅ − y₄: rounding of the result
    y₆  the integer operation                                  y₆ − y₅: arithmetic (multipliers, shifts, tables)

The differences add up to the isolated error of `analyze` as vectors. Their powers need not: causes may cancel, as
rounded weights and corrected biases are meant to. Each power is given as a ratio to the signal's, in dB.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FloatAttr, FunctionType, IntegerType, ModuleOp, TensorType, f32
from xdsl.ir import Operation, Region, SSAValue

from qmlir.analysis.tensors import Comparison, Distance, Isolation
from qmlir.compiler import compile, main_function
from qmlir.dialects.nn import ClampOp, ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import data_operands, uniform
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.ir.interfaces import Array, TensorOp, element_of, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.numerics import fixed_point
from qmlir.settings.arguments import Network

CAUSES = ("weights", "data_clipping", "data_rounding", "result_clipping", "result_rounding", "arithmetic")
"""The causes of an operation's own noise, in the order in which they are added."""


@dataclass(frozen=True)
class ErrorBudget:
    """The causes of the error that one operation makes by itself; each as SQNR in dB, infinite if it does nothing.

    tensor           name of the result
    operation        kind of the operation, such as `nn.conv2d`
    whole            all causes together: the isolated SQNR of `analyze`
    weights          the stored weights and bias, which a calibrated rounding and a bias correction may have moved
    data_clipping    data beyond the range of their type
    data_rounding    data between two steps of their type
    result_clipping  results beyond the range of their type
    result_rounding  results between two steps of their type
    arithmetic       what integers compute otherwise than floats with the same casts
    """

    tensor: str
    operation: str
    whole: float
    weights: float
    data_clipping: float
    data_rounding: float
    result_clipping: float
    result_rounding: float
    arithmetic: float

    @property
    def main_cause(self) -> str:
        """The cause with the largest error; the first of several."""
        return min(CAUSES, key=lambda cause: getattr(self, cause))

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON; an infinite figure becomes None, as JSON has no infinity."""
        row = {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in asdict(self).items()}
        return row | {"main_cause": self.main_cause}


def error_budgets(
    module: Network, quantized: Network, samples: Iterable[Array | Mapping[str, Array]]
) -> list[ErrorBudget]:
    """Splits the error that each quantized operation makes by itself among its causes.

    Args:
        module: The float network, or its path; it stays unchanged.
        quantized: The network that `quantize` made of it, or its path; it stays unchanged.
        samples: Arrays for the only input, or dicts of arrays by input name.

    Returns:
        A row for each operation on quantized types whose inputs and result are tensors of the float network, the
        largest error first.

    Raises:
        QmlirError: The networks have no tensor in common, or there is no sample.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples)
    >>> "relu1_out" in [row.tensor for row in qmlir.error_budgets("digits.onnx", q, samples)]
    True
    """
    compared = Comparison(module, quantized)
    staged, taken, made = _staged(main_function(compared.quantized), compared.shared)
    if not made:
        return []
    executable = compile(staged)
    sums = {name: [Distance() for _ in (*CAUSES, "whole")] for name in made}
    operations = {tensor_name(op.results[0]): op for op in compared.quantized.walk() if op.results}
    for exact, _, alone in compared.over(samples):
        given = {spec.name: exact[n] for spec, n in zip(executable.signature.inputs, taken, strict=True)}
        arrays = iter(executable.run(given))
        for name in made:
            stages = [exact[name], *(compared.saturated(name, next(arrays)) for _ in range(3))]
            clipped, rounded = stored_stages(stages[-1], uniform(operations[name].results[0]))
            stages += [clipped, rounded, alone[name]]
            _update(sums[name], stages)
    rows = [
        ErrorBudget(name, operations[name].name, *(each.sqnr for each in (distances[-1], *distances[:-1])))
        for name, distances in sums.items()
    ]
    return sorted(rows, key=lambda row: row.whole)


def _update(distances: list[Distance], stages: list[Array]) -> None:
    """Adds a sample's stages y₀ … y₆ of one tensor."""
    exact = stages[0].astype(np.float64)
    for distance, before, after in zip(distances, stages, stages[1:], strict=False):
        distance.update(exact, exact + (after.astype(np.float64) - before))
    distances[-1].update(exact, stages[-1])


def stored_stages(y: Array, type: UniformType) -> tuple[Array, Array]:
    """Returns results within the range of their type, and these rounded to the type's steps, as floats."""
    scales, zero_points = type.parameters_along(y.ndim)
    ends = [(end - zero_points) * scales for end in (type.storage_min, type.storage_max)]
    steps = (
        np.rint(y.astype(np.float64) / scales + zero_points).clip(type.storage_min, type.storage_max).astype(np.int64)
    )
    return np.clip(y, *(end.astype(y.dtype) for end in ends)), fixed_point.dequantize(steps, scales, zero_points)


def _staged(function: func.FuncOp, known: Iterable[str]) -> tuple[ModuleOp, list[str], list[str]]:
    """Builds a network with the results y₁, y₂ and y₃ of each quantized operation of a network.

    Returns:
        The module, the names of the tensors that it takes, and the names of the tensors of which it returns the stages.
    """
    stages = Stages(set(known))
    results: dict[str, list[SSAValue]] = {}
    for op in function.body.block.ops:
        if not isinstance(op, TensorOp) or isinstance(op, ConstantOp | RequantizeOp):
            continue
        name = tensor_name(op.results[0])
        if name in stages.known and name not in results and all(map(is_quantized, op.results)):
            found = [stages.on_floats(op, precision) for precision in ("exact", "clipped", "rounded")]
            if all(value is not None for value in found):
                results[name] = [value for value in found if value is not None]
    values = [value for each in results.values() for value in each]
    stages.block.add_op(func.ReturnOp(*values))
    types = FunctionType.from_lists([v.type for v in stages.inputs.values()], [v.type for v in values])
    return ModuleOp([func.FuncOp("main", types, Region(stages.block))]), list(stages.inputs), list(results)


class Stages(Isolation):
    """The function of the stages while it is built."""

    def __init__(self, known: set[str]):
        super().__init__(known)
        self.floats: dict[tuple[SSAValue, str], SSAValue | None] = {}

    def on_floats(self, op: Operation, precision: str) -> SSAValue | None:
        """The operation on floats that hold the stored constants; None if it reads an unknown tensor.

        Args:
            op: An operation on quantized types.
            precision: What the data are: `exact`, `clipped` to the range of their type, or `rounded` to its steps.
        """
        moved = data_operands(op) if isinstance(op, MovementOp) else op.operands
        operands: list[SSAValue] = []
        for value in op.operands:
            if isinstance(op, WeightedOp) and value is op.b and (bias := self._bias(op)) is not None:
                operands.append(bias)
                continue
            found = self._float(value, precision) if value in moved else self.operand(value)
            if found is None:
                return None
            operands.append(found)
        result = TensorType(f32, shape_of(op.results[0]))
        copy = op.create(operands=operands, result_types=[result], properties=dict(op.properties))
        self.block.add_op(copy)
        return copy.results[0]

    def _float(self, value: SSAValue, precision: str) -> SSAValue | None:
        key = (value, precision)
        if key not in self.floats:
            self.floats[key] = self._new_float(value, precision)
        return self.floats[key]

    def _new_float(self, value: SSAValue, precision: str) -> SSAValue | None:
        stored = self.operand(value)
        if stored is None or not is_quantized(stored):
            return stored
        source = self.source(value)
        if source is None or precision == "rounded":
            cast = DequantizeCastOp(stored, TensorType(f32, shape_of(stored)))
            self.block.add_op(cast)
            return cast.result
        if precision == "exact":
            return source
        element = quantized_element(value.type)
        assert isinstance(element, UniformType)
        ends = ((end - element.zero_point) * element.scale for end in (element.storage_min, element.storage_max))
        clamp = ClampOp.make([source], dict(zip(("min", "max"), (FloatAttr(end, f32) for end in ends), strict=True)))
        self.block.add_op(clamp)
        return clamp.y

    def _bias(self, op: WeightedOp) -> SSAValue | None:
        """The float values of a constant bias of plain integers, which counts steps of s_x · s_w; None for others."""
        constant = op.b.owner if op.b is not None else None
        if not isinstance(constant, ConstantOp) or not isinstance(element_of(constant.y), IntegerType):
            return None
        steps = uniform(op.x).scale * np.array(uniform(op.w).scales)
        made = ConstantOp(fixed_point.dequantize(constant.value.array, steps, np.zeros(1)))
        self.block.add_op(made)
        return made.y
