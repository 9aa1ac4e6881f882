"""Measures how far a quantized network's tensors are from the float network's, and which operation causes it."""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from qmlir.compiler import Pipeline, compile, loaded, main_function, reference
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.display import Rows, Table
from qmlir.errors import QmlirError, QmlirWarning
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.facts import FACTORS
from qmlir.ir.interfaces import Array, TensorOp, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.traversal import needed_first
from qmlir.policies.ledger import deciding_operations, decisions
from qmlir.settings.arguments import Network, flag_given, samples_given
from qmlir.transforms.quantize.ranges.masks import unobserved
from qmlir.transforms.quantize.ranges.scale_group import real_range

# ---------------------------------------------------------------------------------------------------------------
# Builds networks that return their inner tensors (taps), so that float and quantized networks can be compared.
#
# `tapped` builds a network that returns every tensor under its name, as floats. `isolated` takes the quantized network
# apart: each operation on quantized types reads tensors of the float network, which are inputs and are quantized as the
# operation wants them. So the result of an operation differs from the float network by the operation's own noise alone.


Tapped = tuple[ModuleOp, list[str]]
"""A module of one function, and the names of the tensors that are its last results."""


def tapped(module: ModuleOp, function: func.FuncOp, *, stored: bool = False) -> Tapped:
    """Copies a network, without observers, so that it returns every named tensor too, after its own results.

    Args:
        module: Stays unchanged.
        function: The network in it.
        stored: Whether tensors of all types are returned, as they are stored. By default only float and quantized
            tensors are, as floats.
    """
    module = module.clone()
    (function,) = (f for f in module.walk() if isinstance(f, func.FuncOp) and f.sym_name == function.sym_name)
    block = function.body.block
    for observer in [o for o in block.ops if isinstance(o, ObserveOp)]:
        Rewriter.erase_op(observer)
    operations = [o for o in block.ops if isinstance(o, TensorOp) and not isinstance(o, ConstantOp)]
    named: dict[str, SSAValue] = {}
    for value in (*block.args, *(r for op in operations for r in op.results)):
        if (name := tensor_name(value)) and name not in named and (stored or is_float(value) or is_quantized(value)):
            named[name] = value
    end = block.last_op
    assert isinstance(end, func.ReturnOp)
    values: list[SSAValue] = []
    for value in map(as_read, named.values()):
        if is_quantized(value) and not stored:
            cast = DequantizeCastOp(value, TensorType(f32, shape_of(value)))
            block.insert_op_before(cast, end)
            value = cast.result
        values.append(value)
    _return(function, end, [*end.operands, *values])
    return module, list(named)


def unnamed(network: str) -> QmlirError:
    """Returns the error about a network of which no tensor has a name, as one written by hand may be."""
    remedy = 'give operations names, such as {qmlir.name = #qmlir.name<tensors ["scores"]>}'
    return QmlirError("tensors are compared by their names", where=network, got="no tensor with a name", remedy=remedy)


def as_read(value: SSAValue) -> SSAValue:
    """The quantized form of a network input, if integer operations read it so; any other value itself."""
    casts = [u.operation for u in value.uses if isinstance(u.operation, QuantizeCastOp)]
    return casts[0].result if isinstance(value.owner, Block) and casts else value


def isolated(function: func.FuncOp, known: Iterable[str]) -> tuple[ModuleOp, list[str], list[str]]:
    """Builds a network in which each operation of a quantized network stands alone and reads float tensors.

    Args:
        function: The quantized network.
        known: The names of the tensors whose float values are known; operations that read other tensors are left out.

    Returns:
        The module, the names of the tensors that it takes, and the names of the tensors that it returns.
    """
    taken = Isolation(set(known))
    results: dict[str, SSAValue] = {}
    for op in function.body.block.ops:
        if not isinstance(op, TensorOp) or isinstance(op, ConstantOp | RequantizeOp):
            continue
        name = tensor_name(op.results[0])
        if name not in taken.known or name in results or not all(map(is_quantized, op.results)):
            continue
        if (copy := taken.copy_of(op)) is not None:
            cast = DequantizeCastOp(copy.results[0], TensorType(f32, shape_of(op.results[0])))
            taken.block.add_op(cast)
            results[name] = cast.result
    taken.block.add_op(func.ReturnOp(*results.values()))
    types = FunctionType.from_lists([v.type for v in taken.inputs.values()], [v.type for v in results.values()])
    return ModuleOp([func.FuncOp("main", types, Region(taken.block))]), list(taken.inputs), list(results)


class Isolation:
    """The function of isolated operations while it is built."""

    def __init__(self, known: set[str]):
        self.known = known
        self.block = Block()
        self.inputs: dict[str, SSAValue] = {}
        self.copies: dict[SSAValue, SSAValue | None] = {}

    def copy_of(self, op: Operation) -> Operation | None:
        """A copy of an operation that reads quantized inputs; None if the operation reads an unknown tensor."""
        operands = {v: self.operand(v) for v in op.operands}
        read = {v: stands for v, stands in operands.items() if stands is not None}
        if len(read) < len(operands):
            return None
        copy = op.clone(dict(read))
        self.block.add_op(copy)
        return copy

    def operand(self, value: SSAValue) -> SSAValue | None:
        """What a copied operation reads in place of `value`; None for an unknown tensor."""
        for needed in needed_first([value], self._moved_from):
            if needed not in self.copies:
                self.copies[needed] = self._new_operand(needed)
        return self.copies[value]

    def _moved_from(self, value: SSAValue) -> Sequence[SSAValue]:
        """The operands of the data movement that makes a value; none where the value is an input or copied already."""
        copied = value in self.copies or self._is_input(value)
        return value.owner.operands if isinstance(value.owner, MovementOp | RequantizeOp) and not copied else ()

    def _is_input(self, value: SSAValue) -> bool:
        return (
            is_quantized(value)
            and not isinstance(value.owner, ConstantOp)
            and tensor_name(source_of(value)) in self.known
        )

    def _new_operand(self, value: SSAValue) -> SSAValue | None:
        """A copied constant, a quantized input, or a copy of data movement on these; None for an unknown tensor."""
        if self._is_input(value):
            copy = QuantizeCastOp(self._input(source_of(value)), value.type)
            self.block.add_op(copy)
        else:
            owner = value.owner
            copy = self.copy_of(owner) if isinstance(owner, ConstantOp | MovementOp | RequantizeOp) else None
        return copy.results[0] if copy is not None else None

    def source(self, value: SSAValue) -> SSAValue | None:
        """The float network's tensor that a quantized value stands for; None if it is not that of a known tensor."""
        source = source_of(value)
        known = not isinstance(value.owner, ConstantOp) and tensor_name(source) in self.known
        return self._input(source) if known else None

    def _input(self, source: SSAValue) -> SSAValue:
        name = tensor_name(source)
        if name not in self.inputs:
            type = TensorType(f32, shape_of(source))
            self.inputs[name] = self.block.insert_arg(type, len(self.block.args))
        return self.inputs[name]


def source_of(value: SSAValue) -> SSAValue:
    """The value that a chain of casts and changes of scale begins with."""
    while isinstance(value.owner, DequantizeCastOp | QuantizeCastOp | RequantizeOp):
        value = value.owner.operands[0]
    return value


def _return(function: func.FuncOp, end: func.ReturnOp, values: Sequence[SSAValue]) -> None:
    """Makes a function return other values; drops the attributes of its results."""
    Rewriter.replace_op(end, func.ReturnOp(*values))
    types: list[Attribute] = [v.type for v in values]
    function.function_type = FunctionType.from_lists(function.function_type.inputs.data, types)
    function.res_attrs = None


# ---------------------------------------------------------------------------------------------------------------
# The errors of tensors: cumulative and isolated
#
#     cumulative   the tensor of the quantized network against that of the float network, on the same inputs
#     isolated     the same, but the operation that makes the tensor reads the float network's tensors. This leaves only
#                  the operation's own noise: that of quantizing its inputs, its weights and its result.
#
# Both are given in dB of signal to quantization noise (SQNR), 10·log10(Σ f² / Σ (q − f)²), and as the cosine of the
# angle between q and f. q is the quantized tensor, f the float tensor; sums are over all elements of all samples. If
# quantization has equalized the channels of a tensor, the same factors are applied to f before the comparison.
#
# A tensor may have one layout in the float network as it was loaded, and another after simplification. The quantized
# network was made from one of these two networks, and is compared with that one. A warning lists the tensors whose
# shapes still differ.
#
# A mask leaves scores out by numbers far below them, which saturate on purpose (masks.py). So masks and masked scores
# of the float network are compared as they saturate: at least the least number that their quantized type stores.


if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable
    from qmlir.backends.reference import Reference


@dataclass
class Distance:
    """Sums from which SQNR and cosine follow, over pairs of arrays: f of the float network, q of the quantized network.

    signal, noise, other, product   Σ f², Σ (q − f)², Σ q², Σ f·q
    """

    signal: float = 0.0
    noise: float = 0.0
    other: float = 0.0
    product: float = 0.0

    def update(self, exact: Array, approximate: Array) -> None:
        """Adds two arrays of the same shape; `exact` is the float network's, `approximate` the quantized network's."""
        f, q = exact.astype(np.float64).ravel(), approximate.astype(np.float64).ravel()
        self.signal += float(f @ f)
        self.noise += float((q - f) @ (q - f))
        self.other += float(q @ q)
        self.product += float(f @ q)

    @property
    def sqnr(self) -> float:
        """The SQNR in dB; infinite if the arrays are equal, −infinity if f is zero and q is not."""
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def cosine(self) -> float:
        """The cosine of the angle between q and f; 1 if both are zero, 0 if only one of them is zero."""
        length = math.sqrt(self.signal) * math.sqrt(self.other)
        return self.product / length if length else float(self.signal == self.other)


@dataclass(frozen=True)
class TensorError:
    """The errors of one tensor; the isolated figures are None if no operation on quantized types makes the tensor.

    tensor      the tensor's name
    operation   the operation that makes it, such as `nn.conv2d`; `input` for an input of the network
    cumulative  SQNR in dB, and cosine, in the quantized network
    isolated    SQNR in dB, and cosine, of the error that its operation alone adds
    """

    tensor: str
    operation: str
    cumulative_sqnr: float
    cumulative_cosine: float
    isolated_sqnr: float | None = None
    isolated_cosine: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON; an infinite figure becomes None, as JSON has no infinity."""
        return {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in asdict(self).items()}


class TensorErrors(Rows[TensorError]):
    """The errors of a network's tensors: a list that shows itself as a table."""

    def table(self) -> Table:
        rows = [(r.tensor, r.operation, r.cumulative_sqnr, r.cumulative_cosine, r.isolated_sqnr) for r in self]
        headings = ("tensor", "operation", "SQNR [dB]", "cosine", "own SQNR [dB]")
        return Table(f"errors of {len(self)} tensors", headings, rows)


def analyze(
    module: Network, quantized: Network, samples: Iterable[Array | Mapping[str, Array]], *, compiled: bool = True
) -> TensorErrors:
    """Compares the tensors of a quantized network with those of the float network it was made from.

    Args:
        module: The float network, or its path; it stays unchanged.
        quantized: The network that `quantize` made of it, or its path; it stays unchanged.
        samples: Arrays for the only input, or dicts of arrays by input name.
        compiled: Whether the networks run as machine code. Otherwise numpy evaluates them: to the same bits, without
            the seconds that compiling takes, but slower for each sample.

    Returns:
        A row for each tensor that both networks have, in program order; the list shows itself as a table.

    Raises:
        QmlirError: The networks have no tensor in common, or there is no sample.

    >>> import qmlir
    >>> rows = qmlir.analyze("digits.onnx", qmlir.quantize("digits.onnx", data=samples), samples)
    >>> min(rows, key=lambda row: row.cumulative_sqnr).cumulative_sqnr > 20  # dB
    True
    """
    compared = Comparison(module, quantized, compiled=flag_given("compiled", compiled))
    cumulative, isolated = ({name: Distance() for name in names} for names in (compared.shared, compared.outputs))
    for exact, found, alone in compared.over(samples):
        for name, distance in cumulative.items():
            distance.update(exact[name], found[name])
        for name, values in alone.items():
            isolated[name].update(exact[name], values)
    makers = {tensor_name(r): op.name for op in deciding_operations(compared.quantized) for r in op.results}
    rows = TensorErrors()
    for name, whole in cumulative.items():
        own = isolated.get(name, None if name in makers else whole)
        figures = (own.sqnr, own.cosine) if own else (None, None)
        rows.append(TensorError(name, makers.get(name, "input"), whole.sqnr, whole.cosine, *figures))
    return rows


Tensors = Mapping[str, Array]
"""Tensors by name."""


class Comparison:
    """A float network and the network quantized from it, ready to run side by side.

    quantized  the quantized network
    shared     the names of the tensors that both networks have, in program order
    outputs    the shared tensors that an operation on quantized types makes
    """

    def __init__(self, module: Network, quantized: Network, *, compiled: bool = True):
        """Loads both networks and makes them ready to run; see `analyze` for arguments and errors."""
        run = compile if compiled else reference
        module, quantized = loaded(module, simplified=False), loaded(quantized, simplified=False)
        self.quantized = quantized
        for network, name in ((module, "the float network"), (quantized, "the quantized network")):
            refuse_opaque(network, name)
        origin = origin_of(module, quantized)
        float_module, self._float_names = tapped(origin, main_function(origin))
        quantized_module, self._quantized_names = tapped(quantized, main_function(quantized))
        if not self._float_names:
            raise unnamed("the float network")
        shapes, others = _shapes(float_module, self._float_names), _shapes(quantized_module, self._quantized_names)
        self.shared = [n for n in others if shapes.get(n) == others[n]]
        if not self.shared or not decisions(quantized):
            got = "none in common" if decisions(quantized) else "one that was never quantized"
            remedy = "give the network that was quantized, and the .mlir file that `quantize` wrote of it"
            raise QmlirError("the networks must have tensors of the same names", got=got, remedy=remedy)
        if moved := [n for n in others if n in shapes and n not in self.shared]:
            text = f"not compared, as their shapes differ between the two networks: {', '.join(moved)}"
            warnings.warn(text, QmlirWarning, stacklevel=3)
        alone_module, self._inputs, self.outputs = isolated(main_function(quantized), self.shared)
        self._floats, self._quants = run(float_module), run(quantized_module)
        self._alone = run(alone_module) if self.outputs else None
        factors = channel_factors(quantized).items()
        self._factors = {name: each for name, each in factors if name in self._float_names}
        self._least = least_of_masked(origin, quantized)

    def over(self, samples: Iterable[Array | Mapping[str, Array]]) -> Iterator[tuple[Tensors, Tensors, Tensors]]:
        """Yields three sets of tensors for each sample: the float network's, the quantized network's, isolated ones.

        Isolated tensors are the results of single quantized operations that read the float network's tensors.

        Raises:
            QmlirError: There is no sample.
        """
        count = 0
        for sample in samples_given(samples):
            exact = _named(self._floats, self._float_names, sample)
            exact.update((name, (exact[name] * each).astype(np.float32)) for name, each in self._factors.items())
            exact = {name: self.saturated(name, array) for name, array in exact.items()}
            yield exact, _named(self._quants, self._quantized_names, sample), self._alone_on(exact)
            count += 1
        if not count:
            raise QmlirError("an analysis needs at least one sample", got="none")

    def saturated(self, name: str, array: Array) -> Array:
        """Returns a tensor of the float network with the numbers of masks as they saturate; another tensor as it is."""
        return np.maximum(array, self._least[name]) if name in self._least else array

    def _alone_on(self, exact: Tensors) -> Tensors:
        if self._alone is None:
            return {}
        taken = {spec.name: exact[n] for spec, n in zip(self._alone.signature.inputs, self._inputs, strict=True)}
        return dict(zip(self.outputs, self._alone.run(taken), strict=True))


def origin_of(module: ModuleOp, quantized: ModuleOp) -> ModuleOp:
    """Returns the float network as loaded or simplified, whichever has more operations of the quantized network."""
    made = _operations(quantized)
    return max((Pipeline("simplify")(module), module), key=lambda each: (made & _operations(each)).total())


def _operations(module: ModuleOp) -> Counter[tuple[str, str, tuple[int, ...]]]:
    """The operations of a network by kind, result name and result shape, with their counts."""
    return Counter(
        (op.name, tensor_name(result), shape_of(result)) for op in deciding_operations(module) for result in op.results
    )


def _shapes(module: ModuleOp, names: list[str]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the named tensors, which are the last results that the module's main function returns."""
    results = main_function(module).function_type.outputs.data[-len(names) :] if names else ()
    return {n: type.get_shape() for n, type in zip(names, results, strict=True) if isinstance(type, TensorType)}


def least_of_masked(origin: ModuleOp, quantized: ModuleOp) -> dict[str, np.float32]:
    """The least numbers that the types of masks and of masked scores store, by tensor name.

    Args:
        origin: The float network, which says what masks.
        quantized: The network quantized from it, with the types.
    """
    names = {tensor_name(value) for value in unobserved(main_function(origin).body.block)}
    results = [r for op in deciding_operations(quantized) for r in op.results if tensor_name(r) in names]
    types = {tensor_name(r): quantized_element(r.type) for r in results}
    return {
        name: np.float32(real_range(type)[0])
        for name, type in types.items()
        if isinstance(type, UniformType) and not type.is_per_axis
    }


def channel_factors(quantized: ModuleOp) -> dict[str, Array]:
    """The factors by which equalization has multiplied the channels of tensors, by tensor name."""
    noted = ((op, FACTORS.of(op)) for op in quantized.walk())
    return {
        tensor_name(y := op.results[0]): np.repeat(factors.array, (1, *shape_of(y))[-1] // factors.array.size)
        for op, factors in noted
        if factors is not None
    }


def _named(
    network: "Executable | Reference", names: list[str], sample: Array | Mapping[str, Array]
) -> dict[str, Array]:
    return dict(zip(names, network.run(sample)[-len(names) :], strict=True))


RANKINGS = ("isolated", "cumulative", "order")
"""The orders of rows: by isolated or by cumulative SQNR, the worst first, or as the network computes the tensors."""


def ranked(rows: list[TensorError], by: str = "isolated") -> list[TensorError]:
    """The rows with the lowest SQNR first and rows without that SQNR last; with `order`, in the given order."""

    def worst(row: TensorError) -> float:
        value = row.isolated_sqnr if by == "isolated" else row.cumulative_sqnr
        return math.inf if value is None else value

    return list(rows) if by == "order" else sorted(rows, key=worst)
