"""Random layers of integers: machine code gives the reference's bits, however its items are split.

A family is a function that draws a layer. The layers of a batch are one network, which takes a tenth of the time that
its layers take alone. The items of each kernel are computed by some calls on parts of their range, the parts in any
order, as threads would compute them. `make test` draws a few batches of each family, `make conformance` the rest.

    @batches
    def test_pools(batch: int, form: Form) -> None:
        computes(draw, batch, form)
"""

import gc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp, StringAttr, TensorType, i32, i64
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Machine, enabled
from qmlir.backends.cpu.llvm import known_to_llvm, missing_here
from qmlir.codegen.lowering import is_kernel
from qmlir.codegen.machine import capabilities
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import RequantizeOp
from qmlir.dialects.qint.requantize import float32_parts, int32, int32s
from qmlir.ir.facts import PARALLEL
from qmlir.ir.types import element_type_of
from qmlir.numerics import Array
from qmlir.numerics.contracts import CONTRACTS, WIDE_LIMIT
from tests.conftest import THOROUGH
from tests.lowering.both import features_of, network, run

# ---------------------------------------------------------------------------------------------------------------
# Data: extremes, zero points, sums that fit, requantizations.


def ends(bits: int) -> tuple[int, int]:
    """The least and the greatest integer of so many bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def extreme(rng: np.random.Generator, bits: int, *shape: int) -> Array:
    """Integers of all sizes, of both ends only, or of one end everywhere."""
    low, high = ends(bits)
    kind = rng.choice(["any", "ends", "low", "high"], p=[0.5, 0.3, 0.1, 0.1])
    if kind == "any":
        return rng.integers(low, high, shape, f"i{bits // 8}", endpoint=True)
    chosen = {"ends": [low, high], "low": [low], "high": [high]}[kind]
    return rng.choice(np.array(chosen, f"i{bits // 8}"), shape)


def zero_point_of(rng: np.random.Generator, bits: int, beyond: float = 0.05) -> int:
    """A zero point: an end, 0, between them, or with the probability `beyond` one that 16 bits do not hold."""
    if rng.random() < beyond:
        return 40000
    low, high = ends(bits)
    return int(rng.choice([low, 0, high, int(rng.integers(low, high))]))


def weighted_data(
    rng: np.random.Generator, x: tuple[int, tuple[int, ...]], w: tuple[int, tuple[int, ...]], beyond: float = 0.05
) -> tuple[Array, int, Array]:
    """Data, their zero point, and weights; each type is given by its bits and its shape.

    In a tenth of the layers every product is the largest that the types permit, all of one sign: sums come as close to
    their bound as they can.
    """
    data, weights, zero_point = extreme(rng, x[0], *x[1]), extreme(rng, w[0], *w[1]), zero_point_of(rng, x[0], beyond)
    if rng.random() < 0.1:
        low, high = ends(x[0])
        zero_point, value = (low, high) if rng.random() < 0.5 else (high, low)
        data[...], weights[...] = value, ends(w[0])[0]
    return data, zero_point, weights


def up_to(rng: np.random.Generator, most: int) -> int:
    """A size from 1 to `most`; small sizes are as likely as large sizes."""
    return min(most, int(np.exp(rng.uniform(0, np.log(most + 1)))))


def largest(x: Array, zero_point: int) -> int:
    """The largest |x − zero point| of all integers of the type of `x`."""
    low, high = ends(8 * x.itemsize)
    return max(high - zero_point, zero_point - low)


@dataclass(frozen=True)
class Sums:
    """The accumulators of a layer.

    most   a bound of their magnitude, the bias included
    wide   whether they have 64 bits; sums that 32 bits may not hold do, and some others
    bias   the bias of each output channel, or None
    """

    most: int
    wide: bool
    bias: Array | None

    @staticmethod
    def drawn(rng: np.random.Generator, most: int, channels: int) -> "Sums":
        """Accumulators of `channels` channels whose sums of products have a magnitude up to `most`."""
        wide = most + (1 << 20) >= 1 << 31 or rng.random() < 0.1
        reach = 1 << 40 if wide else 1 << 20
        bias = rng.integers(-reach, reach, channels).astype("i8" if wide else "i4")
        return Sums(most + reach, bool(wide), None if rng.random() < 0.3 else bias)

    @property
    def element(self) -> IntegerType:
        """The element type."""
        return i64 if self.wide else i32

    def bias_operand(self) -> SSAValue | Sequence[SSAValue]:
        """The bias as an operand that may be missing."""
        return [] if self.bias is None else ConstantOp(self.bias).y


def requantization(rng: np.random.Generator, most: int, channels: int, wide: bool = False) -> dict[str, Any]:
    """Properties of a requantization of sums up to `most` to 8 bits or 16, under any contract, and `element`.

    Its results lie around the ends of the type: some saturate and some do not.
    """
    names = [name for name, rule in CONTRACTS.items() if rule.limit >= (WIDE_LIMIT if wide else 1 << 31)]
    name = names[int(rng.integers(len(names)))]
    rule, bits = CONTRACTS[name], int(rng.choice([8, 16], p=[0.8, 0.2]))
    low, high = ends(bits)
    count = channels if rng.random() < 0.7 else 1
    # Sums of independent products are near the root of their bound, equal extremes near the bound itself.
    gain = bits - 1 - np.log2(most + 1.0) * rng.uniform(0.5, 1.0)
    shift = np.clip(np.round(gain + rng.uniform(-2, 2, count)), -31, rule.max_shift).astype(int)
    multiplier = rng.integers(1 << 30, 1 << 31, count) // rule.step * rule.step
    multiplier[rng.random(count) < 0.02] = 0
    least, greatest = sorted(rng.integers(low, high, 2).tolist()) if rng.random() < 0.3 else (low, high)
    zero_point = int(rng.choice([low, 0, high, int(rng.integers(low, high))]))
    return {
        "multiplier": int32s(multiplier.tolist()),
        "shift": int32s(shift.tolist()),
        "contract": StringAttr(name),
        "constant": int32s(float32_parts(rng.uniform(low, high))) if rule.sums else None,
        "zero_point": int32(zero_point),
        "min": int32(least),
        "max": int32(greatest),
        "element": IntegerType(bits),
    }


def requantized(acc: SSAValue, properties: dict[str, Any] | None) -> SSAValue:
    """The requantization of a tensor, or the tensor itself if there are no properties."""
    if properties is None:
        return acc
    given = {key: value for key, value in properties.items() if key != "element"}
    return RequantizeOp.make([acc], given, element=properties["element"]).y


# ---------------------------------------------------------------------------------------------------------------
# Layers and how they are computed.


@dataclass(frozen=True)
class Layer:
    """A layer: the arrays of its inputs, the operations that compute it, and a text that shows what was drawn."""

    inputs: tuple[Array, ...]
    graph: Callable[..., SSAValue]
    drawn: str


Family: TypeAlias = Callable[[np.random.Generator], Layer]


@dataclass(frozen=True)
class Form:
    """What code is generated for: a processor by LLVM's name or `native`, with its instructions or portably.

    kernels   the processor whose kernels are chosen, if they are another's: all but the instruction itself is tested
    """

    cpu: str
    portable: bool = False
    kernels: str | None = None

    def __str__(self) -> str:
        return (
            self.cpu + (", portable" if self.portable else "") + (f", kernels of {self.kernels}" * bool(self.kernels))
        )

    @property
    def features(self) -> str | None:
        """The features by which kernels are chosen; None for those of the processor."""
        return features_of(Machine.of(self.kernels)) if self.kernels else None

    @property
    def multiplies_matrices(self) -> bool:
        """Whether kernels of a matrix unit take the place of others."""
        return self.kernels is None and not self.portable and capabilities(enabled(Machine.of(self.cpu))).matrices

    @property
    def lacks(self) -> frozenset[str]:
        """Names of kernels that others take the place of: Winograd's, where four products at once are faster."""
        features = frozenset() if self.portable else enabled(Machine.of(self.kernels or self.cpu))
        return frozenset({"qint_winograd"} if capabilities(features).quad_rate == 4 else ())

    def machine(self) -> Machine:
        """The processor; skips the test if it is of another architecture, or has features that this one lacks."""
        if self.cpu != "native" and self.cpu not in known_to_llvm().processors:
            pytest.skip(f"{self.cpu} is a processor of another architecture")
        machine = Machine.of(self.cpu)
        if missing := missing_here(machine):
            pytest.skip(f"this processor lacks {', '.join(missing)}")
        if self.cpu != "native" and not (enabled(Machine.host()) - enabled(machine)) & set(WIDER):
            pytest.skip(f"the kernels for this processor are those for {self.cpu}")
        if self.kernels and self.kernels not in known_to_llvm().processors:
            pytest.skip(f"{self.kernels} is a processor of another architecture")
        return machine


WIDER = ("avx2", "avxvnni", "avx512f", "avx512bw", "avx512vnni", "amx-int8")
"""Features by which code differs: without any of them beyond those of a named processor, native code is the same."""

EACH = 20 if THOROUGH else 10
"""Layers of a batch; a smaller batch has the first of a larger one."""

FORMS = (
    (Form("native"), 100),
    (Form("x86-64-v2"), 8),
    (Form("x86-64-v3"), 8),
    (Form("native", portable=True), 4),
    (Form("native", kernels="znver4"), 20),
)
"""What code is generated for, and how many batches: 2,000 layers natively, fewer for others.

Zen 4's kernels take products of bytes, Winograd beside them, and the tiles of AVX-512.
"""

QUICK = {"native": 1, "x86-64-v2": 1, "native, kernels of znver4": 1}
"""Batches that `make test` draws."""

THOROUGHLY = pytest.mark.skipif(not THOROUGH, reason="make conformance draws them")


def _batches() -> list[Any]:
    return [
        pytest.param(batch, form, marks=() if batch < QUICK.get(str(form), 0) else THOROUGHLY, id=f"{form}-{batch}")
        for form, count in FORMS
        for batch in range(count)
    ]


batches = pytest.mark.parametrize(("batch", "form"), _batches())
"""The batches of a family: a test of it takes the number of a batch, which seeds it, and a form."""


def network_of(layers: Sequence[Layer]) -> ModuleOp:
    """A network that computes each layer from inputs of its own."""
    inputs = [x for layer in layers for x in layer.inputs]

    def graph(*values: SSAValue) -> list[SSAValue]:
        left = list(values)
        results: list[SSAValue] = []
        for layer in layers:
            own, left = left[: len(layer.inputs)], left[len(layer.inputs) :]
            results.append(layer.graph(*own))
        return results

    return network(graph, *(TensorType(element_type_of(x.dtype), x.shape) for x in inputs))


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


@contextmanager
def without_collection() -> Generator[None]:
    """Keeps Python from looking for cycles in growing IR again and again, a quarter of the time of a batch."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def computes(draw: Family, batch: int, form: Form, kernels: Sequence[str] = ()) -> None:
    """Asserts that the network of a batch gives the reference's bits.

    Args:
        draw: The family of its layers.
        batch: The number of the batch, which seeds it; batches of different forms with one number are the same.
        form: What code is generated for.
        kernels: Names, each of which the name of some kernel of the first batch must contain.
    """
    machine = form.machine()
    rng = np.random.default_rng(batch)
    layers = [draw(rng) for _ in range(EACH)]

    def rewrite(lowered: ModuleOp) -> None:
        names = [f.sym_name.data for f in lowered.body.block.ops if isinstance(f, func.FuncOp)]
        assert any(PARALLEL.on(f) for f in lowered.body.block.ops)
        for kernel in set(kernels) - form.lacks if batch == 0 and not form.multiplies_matrices else ():
            assert any(kernel in name for name in names), f"no layer of the batch is computed by {kernel}"
        split(lowered, rng)

    inputs = [x for layer in layers for x in layer.inputs]
    # Verifying takes 40 % of the time, and what the passes write does not depend on the form: the first batch will do.
    with without_collection():
        expected, got = run(
            network_of(layers),
            inputs,
            rewrite,
            machine,
            features=form.features,
            portable=form.portable,
            verify=batch == 0,
        )
    for layer, e, g in zip(layers, expected, got, strict=True):
        assert (g.shape, g.dtype) == (e.shape, e.dtype), layer.drawn
        np.testing.assert_array_equal(g, e, layer.drawn)
