"""Proofs hold: on random quantized networks, no input makes an integer leave the interval that is proved for it.

Each operation is evaluated by the reference on operands at the ends of their own intervals: all least, all greatest,
alternating, and with the signs of the weights of one channel, which is what brings a sum to its bound.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from xdsl.ir import Operation, SSAValue

import qmlir
from qmlir.analysis.certify.certificate import certificate_of
from qmlir.analysis.certify.intervals import Interval, Proof, prove
from qmlir.backends.reference import trace
from qmlir.checker import check_certificate
from qmlir.dialects import nn, qint
from qmlir.errors import NodeError, PipelineError
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.signature import main_function
from qmlir.ir.source import parse_text
from qmlir.ir.types import dtype_of, is_integer
from tests.checker.networks import certified
from tests.conftest import THOROUGH
from tests.graphs import Graph, graphs
from tests.test_random_graphs import PRECISIONS, SCHEMAS

NETWORKS = 2000 if THOROUGH else 40

once = settings(
    max_examples=NETWORKS,
    phases=[Phase.generate],
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def _adversarial(value: SSAValue, interval: Interval) -> list[np.ndarray[Any, Any]]:
    """Arrays of a value at the ends of its interval: all least, all greatest, alternating."""
    shape, dtype = shape_of(value), dtype_of(element_of(value))
    lowest, highest = (np.broadcast_to(e.astype(np.int64), shape) for e in (interval.lowest, interval.highest))
    odd = np.indices(shape, sparse=True)
    turns = np.broadcast_to(sum(odd) % 2 == 1, shape) if shape else np.array(False)
    return [a.astype(dtype) for a in (lowest, highest, np.where(turns, lowest, highest))]


def _matched(op: Operation, interval: Interval) -> Iterator[np.ndarray[Any, Any]]:
    """Data with the signs of the weights of one channel, where the window of the first output reads them."""
    if not isinstance(op, qint.FullyConnectedOp | qint.Conv2DOp | qint.DepthwiseConv2DOp):
        return
    weights = cast(nn.ConstantOp, op.w.owner).value.array
    shape, dtype, low, high = shape_of(op.x), dtype_of(element_of(op.x)), interval.low, interval.high
    for up in (True, False):
        signs = (weights[-1] > 0) == up if not isinstance(op, qint.DepthwiseConv2DOp) else (weights[0] > 0) == up
        data = np.full(shape, min(max(0, low), high), dtype)
        if isinstance(op, qint.FullyConnectedOp):
            data[:] = np.where(signs, high, low)
        elif op.dilation_values() == (1, 1):
            (top, _, left, _), (_, rows, columns, channels) = op.padding_values(), shape
            inside = signs[top : top + rows, left : left + columns][..., :channels]
            data[0, : inside.shape[0], : inside.shape[1], : inside.shape[2]] = np.where(inside, high, low)
        yield data


def _within(values: np.ndarray[Any, Any], interval: Interval, where: str) -> None:
    if values.size:
        wide = values.astype(object)
        assert ((wide >= interval.lowest) & (wide <= interval.highest)).all(), where


def _holds(op: Operation, proofs: dict[Operation, Proof]) -> int:
    """Evaluates an operation on adversarial operands; returns on how many."""
    proof, operands = proofs[op], list[list[np.ndarray[Any, Any]]]()
    if proof.result is None or (not isinstance(op, nn.WhereOp | qint.RequantizeOp) and not op.name.startswith("qint.")):
        return 0
    for place, operand in enumerate(op.operands):
        if isinstance(operand.owner, nn.ConstantOp):
            operands.append([operand.owner.value.array])
            continue
        interval = proofs[cast(Operation, operand.owner)].result if isinstance(operand.owner, Operation) else None
        if interval is None:
            return 0
        operands.append(_adversarial(operand, interval))
        if place == 0:
            operands[0] += _matched(op, interval)
    for arrays in product(*operands):
        (result,) = cast(Any, op).evaluate(*arrays)
        _within(result, proof.result, op.name)
    return 1


def test_adversarial_operands_stay_in_the_intervals(tmp_path: Path) -> None:
    certified_networks, operations = 0, 0

    @seed(20)
    @once
    @given(graphs(choices=True), st.sampled_from(SCHEMAS), st.booleans(), st.sampled_from(PRECISIONS))
    def check(graph: Graph, schema: str, per_channel: bool, precisions: tuple[str, str]) -> None:
        nonlocal certified_networks, operations
        precision, weights = cast(Any, precisions)
        try:
            quantized = qmlir.quantize(
                graph.module, schema=cast(Any, schema), precision=precision, weight_precision=weights,
                per_channel=per_channel,
            )  # fmt: skip
            integers, _ = certificate_of(quantized)
        except PipelineError:  # no observer of this network holds a range
            return
        except NodeError as error:  # something stayed float
            if "must compute on integers" not in str(error):
                raise
            return
        function = main_function(integers)
        proofs = prove(function)
        operations += sum(_holds(op, proofs) for op in proofs)
        (argument,) = function.body.block.args
        extremes = [np.full(shape_of(argument), s, np.float32) for s in (-1e9, 1e9)]
        for sample in (*graph.samples, *extremes, _alternating(extremes[1])):
            for value, array in trace(function, [sample])[1].items():
                if (proof := proofs.get(cast(Operation, value.owner))) is not None and is_integer(element_of(value)):
                    assert proof.result is not None
                    _within(array, proof.result, str(value.owner))
        if certified_networks % 4 == 0 and precision == "int8":  # tables of 16 bits take seconds
            check_certificate(certified(quantized, tmp_path).path)
        certified_networks += 1

    check()
    assert certified_networks >= NETWORKS // 3
    assert operations > 3 * certified_networks


def _alternating(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    flat = x.reshape(-1).copy()
    flat[::2] *= -1
    return flat.reshape(x.shape)


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
    found = prove(main_function(module))[op].result
    assert found is not None
    for channel, row in enumerate(weights.value.array):
        data = np.where((row > 0) == up, 127, -128).astype(np.int8)[None]
        (sums,) = op.evaluate(data, weights.value.array, bias.value.array)
        assert sums[0, channel] == (found.highest if up else found.lowest)[channel]
