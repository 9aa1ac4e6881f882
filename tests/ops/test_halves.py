"""Every operation on floats is one on halves: it computes in f32 and rounds once, in numpy and as machine code."""

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, TensorType, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.compiler import Pipeline, compile
from qmlir.dialects import nn
from qmlir.dialects.nn.base import NNOp
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import dtype_of
from tests.conftest import crossed
from tests.lowering.both import assert_same, network, referred
from tests.ops.sample import Array, Operand
from tests.ops.samples import SAMPLES, Sample

HALVES = [Float16Type(), BFloat16Type()]


def computes_floats(sample: Sample) -> bool:
    return issubclass(sample.op, NNOp) and any(isinstance(o.element, Float32Type) for o in sample.operands)


FLOATS = [s for s in SAMPLES if computes_floats(s) and s.op is not nn.BlockedFullyConnectedOp]


def halved(sample: Sample, element: Attribute) -> Sample:
    """The sample on halves."""

    def half(operand: Operand) -> Operand:
        low, high = max(operand.low, -6e4), min(operand.high, 6e4)  # f16 ends at 65504
        is_float = isinstance(operand.element, Float32Type)
        return replace(operand, element=element, low=low, high=high) if is_float else operand

    return replace(sample, operands=tuple(map(half, sample.operands)))


@crossed({"sample": FLOATS, "element": HALVES})
def test_it_computes_in_f32_and_rounds_once(sample: Sample, element: Attribute) -> None:
    half = halved(sample, element)
    op, arrays = half.build(), half.arrays(5)
    op.verify()
    wide = [x.astype(np.float32) if x.dtype == dtype_of(element) else x for x in arrays]
    with np.errstate(all="ignore"):
        for result, got, exact in zip(op.results, op.evaluate(*arrays), sample.build().evaluate(*wide), strict=True):
            is_float = element_of(result) == element
            assert is_float or element_of(result) != f32
            assert got.dtype == dtype_of(element_of(result))
            want = exact.astype(got.dtype)
            np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


FIRST = [*{s.op: s for s in reversed(FLOATS)}.values()]
GROUPS = [FIRST[at : at + 10] for at in range(0, len(FIRST), 10)]


@crossed({"group": GROUPS, "element": HALVES})
def test_machine_code_means_the_same(group: list[Sample], element: Attribute) -> None:
    """One network of several operations, each on inputs of its own; weights are constants."""
    halves = [halved(s, element) for s in group]
    arrays = [(s, s.arrays(3)) for s in halves]
    inputs: list[Array] = [x for s, each in arrays for x in each[: s.inputs]]

    def graph(*values: SSAValue) -> list[SSAValue]:
        found, rest = list[SSAValue](), iter(values)
        for sample, each in arrays:
            own = [next(rest) for _ in each[: sample.inputs]]
            constants = [nn.ConstantOp(c).y for c in each[sample.inputs :]]
            found += sample.build([*own, *constants]).results
        return found

    types = [o.type for s in halves for o in s.operands[: s.inputs]]
    _, named, expected = referred(module := network(graph, *types), inputs)
    assert_same(expected, compile(module).run(named))


@pytest.mark.parametrize("element", HALVES, ids=str)
def test_machine_code_converts_every_number_to_the_same_bits(element: Attribute) -> None:
    """All numbers of 16 bits widened and narrowed again, and float32 numbers of all exponents narrowed, and NaN."""
    dtype = dtype_of(element)
    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    leading = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
    floats = (leading | np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001], np.uint32)).view(np.float32)

    def graph(h: SSAValue, x: SSAValue) -> list[SSAValue]:
        wide = nn.CastOp.make([h], element=f32)
        return [wide.y, nn.CastOp.make([wide.y], element=element).y, nn.CastOp.make([x], element=element).y]

    types = [TensorType(element, halves.shape), TensorType(f32, floats.shape)]
    _, named, expected = referred(module := network(graph, *types), [halves, floats])
    wide, again, narrow = compile(module).run(named)
    np.testing.assert_array_equal(wide, expected[0])
    for got, want in ((again, expected[1]), (narrow, expected[2])):
        bits, known, nan = got.view(np.uint16), want.view(np.uint16), np.isnan(want.astype(np.float32))
        np.testing.assert_array_equal(bits[~nan], known[~nan])
        np.testing.assert_array_equal(bits[nan] & 0x7FFF, known[nan] & 0x7FFF)  # the sign of NaN is open


def test_stored_weights_with_scales_of_f32_take_no_halves() -> None:
    blocked = next(s for s in SAMPLES if s.op is nn.BlockedFullyConnectedOp)
    with pytest.raises(VerifyException, match="needs operands that are all f32 or all quantized, got f16, "):
        halved(blocked, Float16Type()).build()


def test_no_operation_computes_on_halves_behind_round_halves() -> None:
    (sample,) = [s for s in FLOATS if str(s) == "nn.fully_connected-bias_and_clamp"]
    half = halved(sample, Float16Type())
    module = Pipeline("round-halves")(network(lambda *v: half.build(v).results[0], *(o.type for o in half.operands)))
    kinds = [(op.name, str(element_of(op.results[0]))) for op in module.walk() if op.results]
    assert kinds == [("nn.cast", "f32")] * 3 + [("nn.fully_connected", "f32"), ("nn.cast", "f16")]
