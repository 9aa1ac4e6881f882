"""stripe-calls: calls that take turns compute each stripe once, with the same bits, in a smaller arena."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.parser import Parser

import qmlir
from qmlir import compiler
from qmlir.errors import PipelineError
from qmlir.ir.context import make_context
from qmlir.ir.facts import ARENA_SIZE
from qmlir.transforms.loops import stripe_calls
from qmlir.transforms.loops.plan_memory import PlanMemoryPass
from qmlir.transforms.loops.stripe_calls import StripeCallsPass
from tests.conftest import THOROUGH, crossed
from tests.graphs import Graph, quantized

WIDE = """
func.func @main(%x: memref<8x100xi8>, %y: memref<8x100xi8>) attributes {qmlir.inputs = 1 : i64} {
  %0 = arith.constant 0 : index
  %8 = arith.constant 8 : index
  %a = memref.alloc() {alignment = 64 : i64} : memref<8x100xi8>
  %b = memref.alloc() {alignment = 64 : i64} : memref<8x100xi8>
  func.call @rows(%x, %a, %0, %8) {qmlir.leads = array<i64: -1, -1>, STRIPES}
    : (memref<8x100xi8>, memref<8x100xi8>, index, index) -> ()
  func.call @rows(%a, %b, %0, %8) {qmlir.leads = array<i64: -1, -1>, STRIPES}
    : (memref<8x100xi8>, memref<8x100xi8>, index, index) -> ()
  func.call @rows(%b, %y, %0, %8) {qmlir.leads = array<i64: -1, -1>, STRIPES}
    : (memref<8x100xi8>, memref<8x100xi8>, index, index) -> ()
  func.return
}
func.func private @rows(%a: memref<8x100xi8>, %b: memref<8x100xi8>, %begin: index, %end: index) { func.return }
"""
"""Three layers, each of whose rows reads the row above, its own and the row below."""

ROWS = "qmlir.stripes = array<i64: 1, 100, 0, 100, 1, 1, 3>"


def parsed(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def calls(module: ModuleOp) -> list[tuple[int, int]]:
    """The items of the calls, in order."""
    found: list[tuple[int, int]] = []
    for op in module.walk():
        if isinstance(op, func.CallOp):
            bounds: list[int] = []
            for value in op.arguments[-2:]:
                assert isinstance(value.owner, arith.ConstantOp)
                assert isinstance(value.owner.value, IntegerAttr)
                bounds.append(value.owner.value.value.data)
            found.append((bounds[0], bounds[1]))
    return found


def size(module: ModuleOp) -> int:
    PlanMemoryPass(memory="small").apply(make_context(), module)
    module.verify()
    return ARENA_SIZE.required(module)


def test_calls_take_turns() -> None:
    whole, striped = parsed(WIDE.replace("STRIPES", ROWS)), parsed(WIDE.replace("STRIPES", ROWS))
    StripeCallsPass().apply(make_context(), striped)
    striped.verify()
    assert calls(striped) == [(0, 6), (0, 5), (0, 4), (6, 8), (5, 8), (4, 8)]
    assert size(striped) + 3 * stripe_calls.CALL <= size(whole) == 1600


def test_calls_without_stripes_stay_whole() -> None:
    module = parsed(WIDE.replace(", STRIPES", ""))
    StripeCallsPass().apply(make_context(), module)
    assert calls(module) == [(0, 8)] * 3


def test_a_call_that_reads_all_of_its_operand_waits_for_it() -> None:
    """The second layer reads its operand as a whole: neither of the pairs around it takes turns."""
    first, second, third = WIDE.split("STRIPES", 2)
    module = parsed(f"{first}{ROWS}{second}qmlir.stripes = array<i64: 1, 100>{third.replace('STRIPES', ROWS)}")
    StripeCallsPass().apply(make_context(), module)
    assert calls(module)[0] == (0, 8)


def test_calls_stay_on_their_side_of_what_stands_between_them() -> None:
    """A call of another kind may read a clock, as those of time-calls do."""
    text = WIDE.replace("STRIPES", ROWS) + "func.func private @clock() { func.return }\n"
    parts = text.split("  func.call @rows")
    module = parsed("  func.call @clock() : () -> ()\n  func.call @rows".join(parts))
    StripeCallsPass().apply(make_context(), module)
    assert [len(op.arguments) for op in module.walk() if isinstance(op, func.CallOp)] == [0, 4] * 3


def test_a_planned_module_is_refused() -> None:
    module = parsed(WIDE.replace("STRIPES", ROWS))
    PlanMemoryPass().apply(make_context(), module)
    with pytest.raises(PipelineError, match="stripe-calls: must run before plan-memory"):
        StripeCallsPass().apply(make_context(), module)


def test_a_module_without_an_entry_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"stripe-calls: needs one function with the attribute qmlir.inputs, got 0"):
        StripeCallsPass().apply(make_context(), parsed("func.func private @f()"))


# ---------------------------------------------------------------------------------------------------------------
# Bits of kernels of all kinds, in all chains that can be divided


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every chain is divided into many parts, whatever it costs; the list has the number of chains of each network."""
    found: list[int] = []

    def all_chains(schedule: stripe_calls.Schedule) -> Mapping[stripe_calls.Chain, int]:
        chains: dict[stripe_calls.Chain, int] = {}
        for n in range(len(schedule.statements)):
            around = sorted(stripe_calls.chains_around(schedule, chains, n), key=lambda c: c[0] - c[1])
            for chain in around:
                parts = max(call.bounds[1] for call in schedule.calls(chain))
                if stripe_calls.turns(schedule.calls(chain), min(parts, 16)) is not None:
                    chains[chain] = min(parts, 16)
                    break
        found.append(len(chains))
        return chains

    monkeypatch.setattr(stripe_calls, "search", all_chains)
    monkeypatch.setattr(stripe_calls, "CALL", -(1 << 40))
    return found


PROCESSORS = (None, "x86-64", "x86-64-v3")

NETWORKS = 30 if THOROUGH else 12
"""Random networks under each schema."""


def _runs(module: ModuleOp, graph: Graph) -> bool:
    cpu = PROCESSORS[len(list(module.walk())) % len(PROCESSORS)]
    small, reference = compiler.compile(module, memory="small", cpu=cpu), qmlir.reference(module)
    for sample in graph.samples:
        for ours, expected in zip(small.run(sample), reference.run(sample), strict=True):
            np.testing.assert_array_equal(ours, expected)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["asymmetric", "symmetric"])
def test_random_networks_in_parts_have_the_same_bits(schema: str, divided: list[int]) -> None:
    assert quantized(schema, NETWORKS, _runs) >= NETWORKS // 2
    assert sum(map(bool, divided)) >= NETWORKS // 6


@pytest.mark.slow
@crossed(
    {
        "cpu": ["x86-64", "x86-64-v3"],
        "name": ["kws_dscnn_i8", "resnet8_cifar_i8", *(["vww_mbv1_i8"] if THOROUGH else [])],
    }
)
def test_networks_in_parts_have_the_same_bits(
    name: str, cpu: str, shared: Callable[[str], Path], divided: list[int]
) -> None:
    module = qmlir.Pipeline("simplify")(qmlir.load(shared(f"models/tflite/{name}.tflite")))
    (spec,) = qmlir.reference(module).signature.inputs
    x = np.random.default_rng(0).integers(-128, 128, spec.shape).astype(spec.dtype)
    np.testing.assert_array_equal(compiler.compile(module, memory="small", cpu=cpu)(x), compiler.compile(module)(x))
    assert divided[0] >= 3
