"""2,000 random depthwise convolutions of integers: machine code gives the reference's bits, however it is split.

`make test` draws a few of them, `make conformance` the rest. The convolutions of a batch are one network. The items of
each kernel are computed by some calls on parts of their range, the parts in any order: as threads would compute them.
"""

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp, StringAttr, TensorType, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.kernel import PARALLEL, is_kernel
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import DepthwiseConv2DOp, RequantizeOp
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.dialects.windows import ints
from qmlir.ir.types import element_type_of
from tests.lowering.both import network, run

Array = npt.NDArray[Any]

BATCHES, EACH = 100, 20
QUICK = 2
THOROUGH = pytest.mark.skipif(not os.environ.get("QMLIR_CONFORMANCE"), reason="make conformance draws them")


def extreme(rng: np.random.Generator, bits: int, *shape: int) -> Array:
    """Integers of all sizes, of both ends only, or one end everywhere."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    kind = rng.choice(["any", "ends", "low", "high"], p=[0.5, 0.3, 0.1, 0.1])
    if kind == "any":
        return rng.integers(low, high, shape, f"i{bits // 8}", endpoint=True)
    ends = {"ends": [low, high], "low": [low], "high": [high]}[kind]
    return rng.choice(np.array(ends, f"i{bits // 8}"), shape)


@dataclass(frozen=True)
class Case:
    """One convolution: its data, its weights [1, KH, KW, O], and the operation's properties."""

    x: Array
    w: Array
    bias: Array | None
    properties: dict[str, Any]
    contract: str | None
    seed: int

    @staticmethod
    def drawn(rng: np.random.Generator) -> "Case":
        bits, weight_bits = (int(rng.choice([8, 16], p=[0.8, 0.2])) for _ in range(2))
        extent = rng.integers(1, 8, 2)
        strides, dilations = rng.integers(1, 4, 2), np.where(rng.random(2) < 0.6, 1, rng.integers(1, 4, 2))
        padding = rng.integers(0, 1 + rng.choice([0, 1, 3, 9]), 4)
        needed = (extent - 1) * dilations + 1 - padding.reshape(2, 2).sum(1)
        size = np.maximum(needed, 1) + rng.integers(0, 12, 2) + [0, int(rng.choice([0, 50], p=[0.8, 0.2]))]
        multiplier = int(rng.choice([1, 2, 3], p=[0.8, 0.1, 0.1]))
        channels = max(1, int(np.exp(rng.uniform(0, np.log(301)))) // multiplier)
        x = extreme(rng, bits, int(rng.integers(1, 3)), *map(int, size), channels)
        w = extreme(rng, weight_bits, 1, *map(int, extent), channels * multiplier)
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        zero_point = int(rng.choice([low, 0, high, int(rng.integers(low, high)), 40000], p=[0.3, 0.2, 0.2, 0.25, 0.05]))
        most = int(np.abs(w.astype(np.int64)).sum((0, 1, 2)).max()) * max(high - zero_point, zero_point - low)
        wide = most + (1 << 20) >= 1 << 31 or rng.random() < 0.1
        bias = rng.integers(-(1 << 40 if wide else 1 << 20), 1 << 20, channels * multiplier).astype(
            "i8" if wide else "i4"
        )
        properties = {
            "strides": ints(strides.tolist()),
            "dilations": ints(dilations.tolist()),
            "padding": ints(padding.tolist()),
            "zero_point": int32(zero_point),
        }
        contracts = ["single64", None] if wide else ["single", "float_even", "double", None]
        return Case(
            x,
            w,
            None if rng.random() < 0.3 and not wide else bias,
            properties,
            contracts[int(rng.integers(len(contracts)))],
            int(rng.integers(1 << 30)),
        )

    def graph(self, x: SSAValue) -> SSAValue:
        """The convolution of a tensor, and its requantization to i8."""
        rng, outputs = np.random.default_rng(self.seed), self.w.shape[3]
        wide = self.bias is not None and self.bias.dtype == np.int64
        bias = [] if self.bias is None else ConstantOp(self.bias).y
        acc = DepthwiseConv2DOp.make([x, ConstantOp(self.w).y, bias], self.properties, element=i64 if wide else i32).acc
        if self.contract is None:
            return acc
        properties = {
            "multiplier": int32s((rng.integers(1 << 23, 1 << 24, outputs) << 7).tolist()),
            "shift": int32s(rng.integers(-12, -5, outputs).tolist()),
            "contract": StringAttr(self.contract),
            "zero_point": int32(int(rng.integers(-128, 128))),
            "min": int32(-128),
            "max": int32(127),
        }
        return RequantizeOp.make([acc], properties, element=IntegerType(8)).y


def split(module: ModuleOp, rng: np.random.Generator) -> None:
    """Replaces each call of a kernel on [0, n) by calls on parts of the range, in any order."""
    main = next(f for f in module.body.block.ops if isinstance(f, func.FuncOp) and not is_kernel(f))
    for call in [op for op in main.walk() if isinstance(op, func.CallOp)]:
        *buffers, _, end = call.operands
        assert isinstance(end.owner, arith.ConstantOp)
        assert isinstance(end.owner.value, IntegerAttr)
        items = end.owner.value.value.data
        cuts = [0, *sorted(rng.integers(0, items, int(rng.integers(0, 4))).tolist()), items]
        parts = list(pairwise(cuts))
        block = call.parent
        assert block is not None
        for i in rng.permutation(len(parts)):
            bounds = [arith.ConstantOp(IntegerAttr(bound, IndexType())) for bound in parts[i]]
            again = func.CallOp(call.callee.string_value(), [*buffers, *(bound.result for bound in bounds)], [])
            block.insert_ops_before([*bounds, again], call)
        call.detach()
        call.erase()


def computes(batch: int, count: int) -> None:
    """The network of a batch's convolutions gives the reference's bits."""
    rng = np.random.default_rng(batch)
    cases = [Case.drawn(rng) for _ in range(count)]
    types = [TensorType(element_type_of(case.x.dtype), case.x.shape) for case in cases]
    module = network(lambda *inputs: [c.graph(x) for c, x in zip(cases, inputs, strict=True)], *types)

    def rewrite(lowered: ModuleOp) -> None:
        assert sum(PARALLEL in f.attributes for f in lowered.body.block.ops) >= 1
        split(lowered, rng)

    expected, got = run(module, [case.x for case in cases], rewrite)
    for case, e, g in zip(cases, expected, got, strict=True):
        np.testing.assert_array_equal(g, e, str((case.x.shape, case.w.shape, case.properties, case.contract)))


@pytest.mark.parametrize("batch", range(QUICK))
def test_some_convolutions(batch: int) -> None:
    computes(batch, EACH)


@THOROUGH
@pytest.mark.parametrize("batch", range(QUICK, BATCHES))
def test_convolutions_are_exact(batch: int) -> None:
    computes(batch, EACH)
