"""plan-memory: no two live buffers share a byte, results land in the caller's arrays, constants are stored once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from qmlir.dialects.loops import CACHE_LINE
from qmlir.errors import PipelineError
from qmlir.ir.arena import Item
from qmlir.ir.context import make_context
from qmlir.ir.facts import ARENA_SIZE, WEIGHTS_BLOB
from qmlir.transforms.loops.plan_memory import PlanMemoryPass, place_buffers


def planned(body: str, arguments: str = "%x: memref<16xi8>, %y: memref<16xi8>", inputs: int = 1) -> ModuleOp:
    """A module with a planned entry of the given body, in which calls of @use take 16 bytes."""
    source = f"""
func.func @main({arguments}) attributes {{qmlir.inputs = {inputs} : i64}} {{
{body}
  func.return
}}
func.func private @use(%a: memref<16xi8>, %b: memref<16xi8>) {{ func.return }}
"""
    module = Parser(make_context(), source).parse_module()
    module.verify()
    PlanMemoryPass().apply(make_context(), module)
    module.verify()
    return module


def use(a: str, b: str) -> str:
    return f"  func.call @use({a}, {b}) : (memref<16xi8>, memref<16xi8>) -> ()\n"


def alloc(*names: str) -> str:
    return "".join(f"  {name} = memref.alloc() {{alignment = 64 : i64}} : memref<16xi8>\n" for name in names)


def copy(a: str, b: str) -> str:
    return f'  "memref.copy"({a}, {b}) : (memref<16xi8>, memref<16xi8>) -> ()\n'


def arena_size(module: ModuleOp) -> int:
    return ARENA_SIZE.required(module)


def blob(module: ModuleOp) -> list[int]:
    return WEIGHTS_BLOB.required(module).array.tolist()


def count(module: ModuleOp, kind: type) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 20), st.integers(0, 8)), max_size=24))
def test_buffers_that_live_together_do_not_overlap(drawn: list[tuple[int, int, int]]) -> None:
    buffers = [Item(str(n), size, first, first + length) for n, (size, first, length) in enumerate(drawn)]
    offsets, arena = place_buffers(buffers)
    for i, (at, a) in enumerate(zip(offsets, buffers, strict=True)):
        assert at % CACHE_LINE == 0
        assert at + a.size <= arena
        for to, b in zip(offsets[:i], buffers[:i], strict=True):
            if a.first <= b.last and b.first <= a.last:
                assert at + a.size <= to or to + b.size <= at
    busiest = max((sum(b.size for b in buffers if b.first <= t <= b.last) for t in range(30)), default=0)
    assert arena >= busiest


def test_best_fit_takes_the_smallest_gap() -> None:
    # big, gone after 1; keeps its neighbours apart: gaps of 640 and of 128 bytes remain at 2
    buffers = [Item("a", 640, 0, 1), Item("b", 512, 0, 3), Item("c", 128, 0, 1), Item("d", 120, 0, 3)]
    offsets, _ = place_buffers([*buffers, Item("e", 100, 2, 3)])
    assert offsets == [0, 640, 1152, 1280, 1152]


def test_a_chain_needs_two_buffers() -> None:
    body = alloc("%a", "%b", "%c", "%d") + use("%x", "%a") + use("%a", "%b") + use("%b", "%c") + use("%c", "%d")
    body += use("%d", "%y")
    assert arena_size(planned(body)) == 2 * CACHE_LINE


def test_views_keep_their_buffer_alive() -> None:
    view = "  %v = memref.expand_shape %a [[0, 1]] output_shape [4, 4] : memref<16xi8> into memref<4x4xi8>\n"
    view += "  %w = memref.collapse_shape %v [[0, 1]] : memref<4x4xi8> into memref<16xi8>\n"
    body = alloc("%a", "%b", "%c") + view + use("%x", "%a") + use("%x", "%b") + use("%b", "%c") + use("%w", "%y")
    assert arena_size(planned(body)) == 3 * CACHE_LINE


def test_a_result_becomes_the_argument() -> None:
    module = planned(alloc("%a", "%b") + use("%x", "%a") + use("%a", "%b") + copy("%b", "%y"))
    assert count(module, memref.CopyOp) == 0
    assert arena_size(module) == CACHE_LINE
    assert "func.call @use(%a, %y)" in str(module)


def test_a_reshaped_result_becomes_the_argument() -> None:
    body = "  %b = memref.alloc() : memref<4x4xi8>\n"
    body += "  %w = memref.collapse_shape %b [[0, 1]] : memref<4x4xi8> into memref<16xi8>\n"
    module = planned(body + use("%x", "%w") + copy("%w", "%y"))
    assert count(module, memref.CopyOp) == 0
    assert "memref.reinterpret_cast %y" in str(module)


@pytest.mark.parametrize(
    ("body", "copies"),
    [
        (copy("%x", "%y"), 1),  # an input
        ("  %w = qmlir.constant_buffer <tensor<16xi8>, " + str([1] * 16) + "> : memref<16xi8>\n" + copy("%w", "%y"), 1),
        (alloc("%a") + use("%x", "%a") + copy("%a", "%y") + use("%x", "%a"), 1),  # overwritten afterwards
        (alloc("%a", "%b") + use("%x", "%a") + use("%x", "%b") + copy("%a", "%y") + copy("%b", "%y"), 2),
        (alloc("%a") + use("%x", "%a") + use("%a", "%y") + copy("%a", "%y"), 1),  # the argument has another life
    ],
)
def test_copies_that_must_stay(body: str, copies: int) -> None:
    assert count(planned(body), memref.CopyOp) == copies


def test_a_value_returned_twice_is_copied_once() -> None:
    arguments = "%x: memref<16xi8>, %y: memref<16xi8>, %z: memref<16xi8>"
    module = planned(alloc("%a") + use("%x", "%a") + copy("%a", "%y") + copy("%a", "%z"), arguments)
    assert count(module, memref.CopyOp) == 1
    assert '"memref.copy"(%y, %z)' in str(module)


def test_a_part_of_a_buffer_is_copied() -> None:
    body = "  %b = memref.alloc() : memref<32xi8>\n"
    body += "  %p = memref.reinterpret_cast %b to offset: [16], sizes: [16], strides: [1] "
    body += ": memref<32xi8> to memref<16xi8>\n"
    module = planned(body + use("%x", "%p") + copy("%p", "%y"))
    assert count(module, memref.CopyOp) == 1
    assert arena_size(module) == CACHE_LINE


def test_constants_are_stored_once_each() -> None:
    """Equal bytes share a place, whatever their type; each starts on a cache line."""
    ones = "[" + ", ".join(["1"] * 16) + "]"
    fours = "[" + ", ".join(["16843009"] * 4) + "]"  # the same bytes
    twos = "[" + ", ".join(["2"] * 16) + "]"
    body = f"""
  %a = qmlir.constant_buffer <tensor<16xi8>, {ones}> : memref<16xi8>
  %b = qmlir.constant_buffer <tensor<16xi8>, {twos}> : memref<16xi8>
  %c = qmlir.constant_buffer <tensor<4xi32>, {fours}> : memref<4xi32>
  %d = "memref.cast"(%c) : (memref<4xi32>) -> memref<4xi32>
  "memref.copy"(%d, %d) : (memref<4xi32>, memref<4xi32>) -> ()
"""
    module = planned(body + use("%a", "%b"))
    assert blob(module) == [1] * 16 + [0] * 48 + [2] * 16 + [0] * 48
    assert [str(op) for op in module.walk() if isinstance(op, memref.ViewOp)] != []


def test_dead_buffers_and_deallocations_go() -> None:
    body = alloc("%a", "%b") + use("%x", "%a") + use("%a", "%y") + "  memref.dealloc %a : memref<16xi8>\n"
    body += "  %v = memref.expand_shape %b [[0, 1]] output_shape [4, 4] : memref<16xi8> into memref<4x4xi8>\n"
    module = planned(body)
    assert arena_size(module) == CACHE_LINE
    assert count(module, memref.DeallocOp) == count(module, memref.AllocOp) == 0
    assert count(module, memref.ViewOp) == 1


def test_argument_attributes_move_along() -> None:
    module = planned(use("%x", "%y"), '%x: memref<16xi8> {qmlir.name = "image"}, %y: memref<16xi8>')
    assert '%arena: memref<0xi8>, %x: memref<16xi8> {qmlir.name = "image"}' in str(module)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "  %a = memref.alloc() {alignment = 128 : i64} : memref<16xi8>\n" + use("%a", "%y"),
            "at most 64 bytes, got 128",
        ),
        (
            '  %a = memref.alloc() : memref<16xi4>\n  "memref.copy"(%a, %a) : (memref<16xi4>, memref<16xi4>) -> ()\n',
            "needs elements that memory holds one by one, got memref<16xi4>",
        ),
        (
            "  %n = arith.constant 4 : index\n  %a = memref.alloc(%n) : memref<?xi8>\n"
            '  "memref.copy"(%a, %a) : (memref<?xi8>, memref<?xi8>) -> ()\n',
            "needs static buffers in row-major order",
        ),
    ],
)
def test_refusals(body: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        planned(body)


def test_runs_once_and_needs_an_entry() -> None:
    module = planned(use("%x", "%y"))
    with pytest.raises(PipelineError, match="plan-memory: must run once"):
        PlanMemoryPass().apply(make_context(), module)
    with pytest.raises(PipelineError, match=r"needs one function with the attribute qmlir.inputs, got 0"):
        PlanMemoryPass().apply(make_context(), ModuleOp([]))
