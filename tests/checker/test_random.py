"""Proofs hold: on random quantized networks, no input makes an integer leave the interval that is proved for it.

Adversarial data are of four kinds: all least, all greatest, alternating, and with the signs of the weights of one
channel, which is what brings a sum to its bound. Each operation is evaluated by the reference on operands of these
kinds, at the ends of their own intervals, and each network on inputs of these kinds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

import qmlir
from qmlir.analysis.certify.certificate import lowered
from qmlir.backends.reference import trace
from qmlir.checker import check_certificate
from qmlir.checker.deriver import Derived
from qmlir.checker.intervals import derive
from qmlir.checker.network import network_of
from qmlir.checker.ranges import Channels
from qmlir.dialects import nn, qint
from qmlir.dialects.quant.ops import QuantizeCastOp, StorageCastOp
from qmlir.dialects.windows import WindowOp
from qmlir.errors import NodeError, PipelineError
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.signature import main_function
from qmlir.ir.source import parse_text
from qmlir.ir.types import dtype_of, is_integer
from tests.checker.networks import certified
from tests.conftest import THOROUGH
from tests.graphs import SCHEMAS, Graph, graphs
from tests.test_random_graphs import PRECISIONS

CHUNKS = 70 if THOROUGH else 1
EACH = 40
"""Networks of a chunk, of which about four in five are integer-only."""

once = settings(
    max_examples=EACH,
    phases=[Phase.generate],
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)

LayerOp = qint.FullyConnectedOp | qint.Conv2DOp | qint.DepthwiseConv2DOp


Proofs = dict[Operation, Derived]
"""What follows for each operation."""


def proofs_of(module: ModuleOp) -> Proofs:
    """Derives the intervals of a network."""
    ops = list(main_function(module).body.block.ops)
    return {ops[index]: found for index, found in derive(network_of(module)).items()}


def _ends(channels: Channels) -> tuple[Array, Array]:
    """The lowest and the highest value of each channel."""
    lowest, highest = np.array(channels, object).T
    return lowest, highest


def _adversarial(value: SSAValue, channels: Channels) -> list[Array]:
    """Arrays of a value at the ends of its interval: all least, all greatest, alternating."""
    shape, dtype = shape_of(value), dtype_of(element_of(value))
    lowest, highest = (np.broadcast_to(e.astype(np.int64), shape) for e in _ends(channels))
    odd = np.indices(shape, sparse=True)
    turns = np.broadcast_to(sum(odd) % 2 == 1, shape) if shape else np.array(False)
    return [a.astype(dtype) for a in (lowest, highest, np.where(turns, lowest, highest))]


@dataclass(frozen=True)
class Matched:
    """Data of a layer that bring one sum to its bound.

    signs    +1 where the sum reads its greatest datum, −1 where it reads its least, 0 where it reads none
    place    the index of the sum
    up       whether the sum goes to its greatest value
    reads    whether the sum reads a datum for each weight
    """

    signs: Array
    place: tuple[int, ...]
    up: bool
    reads: bool

    def data(self, low: int, high: int, rest: int, dtype: np.dtype[Any]) -> Array:
        """The data, with `rest` where the sum reads none."""
        return np.where(self.signs > 0, high, np.where(self.signs < 0, low, rest)).astype(dtype)


def _matched(op: LayerOp) -> Iterator[Matched]:
    """Data with the signs of the weights of the last channel, and of the first with the other signs."""
    weights = cast(nn.ConstantOp, op.w.owner).value.array
    for up in (True, False):
        signs = np.zeros(shape_of(op.x), np.int8)
        channel = op.output_channels() - 1 if up else 0
        if isinstance(op, qint.FullyConnectedOp):
            signs[0] = np.where((weights[channel] > 0) == up, 1, -1)
            yield Matched(signs, (0, channel), up, reads=True)
            continue
        if isinstance(op, qint.DepthwiseConv2DOp):
            first, own = channel * signs.shape[3] // weights.shape[3], weights[0, :, :, channel, None]
        else:
            first, own = channel // (len(weights) // op.group_count()) * weights.shape[3], weights[channel]
        places = [_window(op, axis, own.shape[axis]) for axis in (0, 1)]
        kept = [np.flatnonzero((at >= 0) & (at < signs.shape[axis + 1])) for axis, (_, at) in enumerate(places)]
        inside = np.ix_(*(at[k] for k, (_, at) in zip(kept, places, strict=True)), first + np.arange(own.shape[2]))
        signs[0][inside] = np.where((own[np.ix_(*kept)] > 0) == up, 1, -1)
        reads = all(len(k) == own.shape[axis] for axis, k in enumerate(kept))
        yield Matched(signs, (0, *(at for at, _ in places), channel), up, reads)


def _window(op: WindowOp, axis: int, extent: int) -> tuple[int, Array]:
    """A place of the window along an axis, within the image if there is one, and the indices that it reads."""
    before, stride, dilation = op.padding_values()[2 * axis], op.stride_values()[axis], op.dilation_values()[axis]
    size = shape_of(op.operands[0])[axis + 1]
    every = np.arange(shape_of(op.results[0])[axis + 1])[:, None] * stride - before + np.arange(extent) * dilation
    whole = np.flatnonzero((every[:, 0] >= 0) & (every[:, -1] < size))
    place = int(whole[0]) if whole.size else 0
    return place, every[place]


def _within(values: Array, channels: Channels, where: str) -> None:
    if values.size:
        wide, (lowest, highest) = values.astype(object), _ends(channels)
        assert ((wide >= lowest) & (wide <= highest)).all(), where


def _is_reached(op: LayerOp, matched: Matched, data: Derived, sums: Array, proof: Derived) -> bool:
    """Whether a bound is tight; if it is, the sum has to reach it: its slack is that of the bound."""
    point = op.zero_point.value.data
    if not matched.reads or not data.range[0] <= point <= data.range[1]:
        return False
    assert proof.sums is not None
    ends = _ends(proof.sums.whole)[matched.up]
    assert sums[matched.place] == np.broadcast_to(ends, sums.shape)[matched.place], op.name
    return True


@dataclass
class Tally:
    """What was tested."""

    networks: int = 0
    matched_inputs: int = 0
    operations: int = 0
    tight: int = 0

    def add(self, op: Operation, proofs: Proofs) -> None:
        """Evaluates an operation on adversarial operands."""
        proof, operands = proofs[op], list[list[Array]]()
        known = isinstance(op, nn.WhereOp) or op.name.startswith("qint.")
        if not known:
            return
        for operand in op.operands:
            if isinstance(operand.owner, nn.ConstantOp):
                operands.append([operand.owner.value.array])
                continue
            if not isinstance(operand.owner, Operation):
                return
            operands.append(_adversarial(operand, proofs[operand.owner].channels))
        for arrays in product(*operands):
            (result,) = cast(Any, op).evaluate(*arrays)
            _within(result, proof.channels, op.name)
        if isinstance(op, LayerOp):
            data = proofs[cast(Operation, op.x.owner)]
            low, high = data.range
            rest = min(max(op.zero_point.value.data, low), high)
            for each in _matched(op):
                x = each.data(low, high, rest, dtype_of(element_of(op.x)))
                (result,) = op.evaluate(x, *(arrays[0] for arrays in operands[1:]))
                _within(result, proof.channels, op.name)
                self.tight += _is_reached(op, each, data, result, proof)
        self.operations += 1

    def run(self, function: FuncOp, samples: Sequence[Array], proofs: Proofs) -> None:
        """Evaluates a network on samples and on adversarial inputs."""
        (argument,) = function.body.block.args
        greatest = np.full(shape_of(argument), 1e9, np.float32)
        for sample in (*samples, -greatest, greatest, _alternating(greatest)):
            _run(function, sample, proofs)
        for op in proofs:
            if isinstance(op, LayerOp) and _reads_the_input(op.x):
                data = proofs[cast(Operation, op.x.owner)]
                for each in _matched(op):
                    sums = _run(function, each.signs.reshape(greatest.shape) * greatest, proofs)[op.results[0]]
                    self.tight += _is_reached(op, each, data, sums, proofs[op])
                self.matched_inputs += 1
                return


def _run(function: FuncOp, sample: Array, proofs: Proofs) -> dict[SSAValue, Array]:
    values = dict(trace(function, [sample])[1])
    for value, array in values.items():
        if (proof := proofs.get(cast(Operation, value.owner))) is not None and is_integer(element_of(value)):
            _within(array, proof.channels, str(value.owner))
    return values


def _reads_the_input(value: SSAValue) -> bool:
    """Whether a value is the network's input, quantized, with elements in the same order."""
    op = value.owner
    if not isinstance(op, Operation):
        return True
    kept = isinstance(op, QuantizeCastOp | StorageCastOp | nn.ReshapeOp)
    return (kept or _flips_storage(op)) and _reads_the_input(op.operands[0])


def _flips_storage(op: Operation) -> bool:
    return isinstance(op, qint.LookupOp) and np.array_equal(op.table.array, np.roll(np.arange(-128, 128), 128))


def _alternating(x: Array) -> Array:
    flat = x.reshape(-1).copy()
    flat[::2] *= -1
    return flat.reshape(x.shape)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_adversarial_data_stay_in_the_intervals(chunk: int, tmp_path: Path, record_property: Any) -> None:
    tally = Tally()

    @seed(20 + chunk)
    @once
    @given(graphs(choices=True), st.sampled_from(SCHEMAS), st.booleans(), st.sampled_from(PRECISIONS))
    def check(graph: Graph, schema: str, per_channel: bool, precisions: tuple[str, str]) -> None:
        precision, weights = cast(Any, precisions)
        try:
            quantized = qmlir.quantize(
                graph.module, schema=cast(Any, schema), precision=precision, weight_precision=weights,
                per_channel=per_channel,
            )  # fmt: skip
            integers, _ = lowered(quantized)
        except PipelineError:  # no observer of this network holds a range
            return
        except NodeError as error:  # something stayed float
            if "must compute on integers" not in str(error):
                raise
            return
        function = main_function(integers)
        proofs = proofs_of(integers)
        for op in proofs:
            tally.add(op, proofs)
        tally.run(function, graph.samples, proofs)
        if tally.networks % 4 == 0 and precision == "int8":  # tables of 16 bits take seconds
            check_certificate(certified(quantized, tmp_path).path)
        tally.networks += 1

    check()
    for name, number in vars(tally).items():
        record_property(name, number)
    assert tally.networks >= EACH // 3
    assert tally.operations > tally.networks
    assert tally.matched_inputs > 0
    assert tally.tight > 10


@pytest.mark.parametrize("up", [True, False])
def test_bounds_of_a_fully_connected_layer_are_reached(up: bool) -> None:
    """Intervals are no wider than they must be: data with the signs of the weights reach them."""
    rng = np.random.default_rng(3)
    weights = nn.ConstantOp(rng.integers(-127, 128, (5, 40)).astype(np.int8))
    bias = nn.ConstantOp(rng.integers(-1000, 1000, 5).astype(np.int32))
    text = "func.func @main(%x: tensor<1x40xi8>) -> tensor<1x40xi8> { func.return %x : tensor<1x40xi8> }"
    module = parse_text(make_context(), text, "text")
    block = main_function(module).body.block
    op = qint.FullyConnectedOp.make([block.args[0], weights.y, [bias.y]], {})
    for each in (weights, bias, op):
        block.insert_op_before(each, cast(Operation, block.last_op))
    lowest, highest = _ends(proofs_of(module)[op].channels)
    for channel, row in enumerate(weights.value.array):
        data = np.where((row > 0) == up, 127, -128).astype(np.int8)[None]
        (sums,) = op.evaluate(data, weights.value.array, bias.value.array)
        assert sums[0, channel] == (highest if up else lowest)[channel]
