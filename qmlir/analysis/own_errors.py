"""The own noises of parts: of weights, results and inputs, where each operation reads the float network's tensors.

    weights   e = f(x, stored weights and bias) − f(x, w, b)
    result    e = y, within the range of its type and rounded to the type's steps, − y
    input     the same, for an input of the network

Errors are given in the scale of the float network, although a quantized network may have equalized its channels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from qmlir.analysis.error_budget import Stages, stored_stages
from qmlir.analysis.tensors import channel_factors
from qmlir.compiler import compile, main_function
from qmlir.dialects.nn import ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, TensorOp
from qmlir.ir.rewriting import tensor_name
from qmlir.numerics.schemas import WeightPrecision, choose_weight_quantization, weight_range

WEIGHTS, RESULT, INPUT = "weights", "result", "input"
"""The parts of operations, and of networks, that are quantized one at a time."""

Tensors = Mapping[str, Array]
"""Tensors of the float network by name."""


@dataclass(frozen=True)
class Part:
    """One thing that is quantized alone.

    tensor     name of the result of its operation, or of the input
    operation  kind of the operation, such as `nn.conv2d`; `input` for an input of the network
    part       `weights`, `result` or `input`
    precision  the type that stores it, such as `int8`
    """

    tensor: str
    operation: str
    part: str
    precision: str


class Errors(Protocol):
    """The own noises of some parts, computed from the tensors of the float network."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts, in the order of their errors."""
        ...

    def of(self, exact: Tensors) -> Sequence[Array]:
        """Returns the error of each part's tensor, float64, in the shape of the tensor."""
        ...


class StoredWeights:
    """The errors of the weights that a quantized network stores, biases included."""

    def __init__(self, quantized: ModuleOp, names: Iterable[str]):
        """Builds a network of f(x, stored weights and bias) for each operation.

        Args:
            quantized: The network that `quantize` made; it stays unchanged.
            names: The tensors of the float network.
        """
        self._factors, stages, results = channel_factors(quantized), Stages(set(names)), dict[str, SSAValue]()
        self.parts: list[Part] = []
        for op in _computing(quantized, set(names)):
            name = tensor_name(op.results[0])
            if isinstance(op, WeightedOp) and name not in results:
                if (value := stages.on_floats(op, "exact")) is not None:
                    results[name] = value
                    self.parts.append(Part(name, op.name, WEIGHTS, precision_of(uniform(op.w))))
        self._taken = list(stages.inputs)
        self._network = compile(_module_of(stages.block, list(results.values()))) if results else None

    def of(self, exact: Tensors) -> Sequence[Array]:
        if self._network is None:
            return []
        scaled = _scaled(exact, self._factors)
        found = self._network.run_in_order([np.ascontiguousarray(scaled[name]) for name in self._taken])
        return [
            _unscaled(y.astype(np.float64) - scaled[part.tensor], self._factors.get(part.tensor))
            for y, part in zip(found, self.parts, strict=True)
        ]


class NearestWeights:
    """The errors of weights that are rounded to the nearest step of some precision, one scale for each channel."""

    def __init__(self, origin: ModuleOp, precision: WeightPrecision):
        """Builds a network of f(x, rounded weights) for each operation of the float network with constant weights."""
        copies, results = _FloatCopies(), list[SSAValue]()
        self.parts: list[Part] = []
        for op in main_function(origin).body.block.ops:
            if not isinstance(op, WeightedOp) or not isinstance(op.w.owner, ConstantOp):
                continue
            name, operands = tensor_name(op.y), {v: copies.of(v) for v in op.operands}
            read = {v: copy for v, copy in operands.items() if copy is not None}
            if not name or len(read) < len(operands) or not is_float(op.y):
                continue
            rounded = ConstantOp(_nearest(op.w.owner.value.array, op.CHANNEL_AXIS, precision))
            copy = op.clone({**read, op.w: rounded.y})
            copies.block.add_ops([rounded, copy])
            results.append(copy.results[0])
            self.parts.append(Part(name, op.name, WEIGHTS, precision))
        self._taken = list(copies.inputs)
        self._network = compile(_module_of(copies.block, results)) if results else None

    def of(self, exact: Tensors) -> Sequence[Array]:
        if self._network is None:
            return []
        found = self._network.run_in_order([np.ascontiguousarray(exact[name]) for name in self._taken])
        return [y.astype(np.float64) - exact[p.tensor] for y, p in zip(found, self.parts, strict=True)]


class _FloatCopies:
    """A function of operations that read the float network's tensors, while it is built."""

    def __init__(self) -> None:
        self.block = Block()
        self.inputs: dict[str, SSAValue] = {}
        self._copies: dict[SSAValue, SSAValue | None] = {}

    def of(self, value: SSAValue) -> SSAValue | None:
        """What a copied operation reads in place of `value`; None for an unnamed tensor that is not moved."""
        if value not in self._copies:
            self._copies[value] = self._new(value)
        return self._copies[value]

    def _new(self, value: SSAValue) -> SSAValue | None:
        owner, name = value.owner, tensor_name(value)
        if not isinstance(owner, ConstantOp) and name and is_float(value):
            if name not in self.inputs:
                self.inputs[name] = self.block.insert_arg(value.type, len(self.block.args))
            return self.inputs[name]
        if not isinstance(owner, ConstantOp | MovementOp):
            return None
        operands = {v: self.of(v) for v in owner.operands}
        read = {v: copy for v, copy in operands.items() if copy is not None}
        if len(read) < len(operands):
            return None
        copy = owner.clone(dict(read))
        self.block.add_op(copy)
        return copy.results[0]


class StoredResults:
    """The errors of the results and inputs that a quantized network stores; data movement adds none of its own."""

    def __init__(self, quantized: ModuleOp, names: Iterable[str], *, halvings: int = 0):
        """Notes the types of the results.

        Args:
            quantized: The network that `quantize` made; it stays unchanged.
            names: The tensors of the float network.
            halvings: How many bits more than stored to round to, in the same range.
        """
        self._factors, self._halvings = channel_factors(quantized), halvings
        types: dict[str, tuple[str, str, UniformType]] = {}
        for value in main_function(quantized).body.block.args:
            casts = [u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)]
            if tensor_name(value) and casts:
                types[tensor_name(value)] = ("input", INPUT, uniform(casts[0].result))
        for op in _computing(quantized, set(names)):
            if not keeps_scale(op):
                types.setdefault(tensor_name(op.results[0]), (op.name, RESULT, uniform(op.results[0])))
        types = {name: each for name, each in types.items() if not each[2].is_per_axis}
        self._types = {name: type for name, (_, _, type) in types.items()}
        self.parts = [Part(n, op, part, precision_of(t, halvings)) for n, (op, part, t) in types.items()]

    def of(self, exact: Tensors) -> Sequence[Array]:
        scaled = _scaled(exact, self._factors)
        return [self._error(name, scaled[name], type) for name, type in self._types.items()]

    def _error(self, name: str, y: Array, type: UniformType) -> Array:
        scales, _ = type.parameters_along(y.ndim)
        clipped, rounded = stored_stages(y, type)
        if self._halvings:
            step = scales / 2**self._halvings
            rounded = np.rint(clipped.astype(np.float64) / step) * step
        return _unscaled(rounded.astype(np.float64) - y, self._factors.get(name))


def precision_of(type: UniformType, more: int = 0) -> str:
    """The name of a type's storage, such as `int8`, with some bits more."""
    return f"{'' if type.is_signed else 'u'}int{type.storage_width + more}"


def _computing(quantized: ModuleOp, names: set[str]) -> Iterable[Operation]:
    """The operations on quantized types whose results the float network has, each tensor once, in program order."""
    seen: set[str] = set()
    for op in main_function(quantized).body.block.ops:
        if not isinstance(op, TensorOp) or isinstance(op, ConstantOp | RequantizeOp) or not op.results:
            continue
        name = tensor_name(op.results[0])
        if name in names and name not in seen and all(map(is_quantized, op.results)):
            seen.add(name)
            yield op


def _nearest(weights: Array, axis: int, precision: WeightPrecision) -> Array:
    """Weights rounded to the nearest step of a precision, as float32."""
    low, high = weight_range(precision, narrow=True)
    scales = choose_weight_quantization(weights, axis, "symmetric", precision)
    along = scales.reshape([-1 if i == axis % weights.ndim else 1 for i in range(weights.ndim)])
    return (np.rint(weights / along).clip(low, high) * along).astype(np.float32)


def _scaled(exact: Tensors, factors: Tensors) -> Tensors:
    """Tensors of the float network as equalization has scaled them in the quantized network."""
    return {**exact, **{n: (exact[n] * f).astype(np.float32) for n, f in factors.items() if n in exact}}


def _unscaled(error: Array, factors: Array | None) -> Array:
    return error if factors is None else error / factors


def _module_of(block: Block, results: Sequence[SSAValue]) -> ModuleOp:
    block.add_op(func.ReturnOp(*results))
    types = FunctionType.from_lists([a.type for a in block.args], [r.type for r in results])
    return ModuleOp([func.FuncOp("main", types, Region(block))])
