"""share-items: the work that it estimates is what loops do, and the shares are as many as are worth it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.ir.context import make_context
from qmlir.ir.facts import THREADS
from qmlir.ir.weights import WeightsAttr
from qmlir.transforms.loops.share_items import ShareItemsPass, work_of


def kernel(body: str) -> func.FuncOp:
    """A kernel on %x, whose outermost loop runs over %i, with this body; a load and a store are 2 operations."""
    return next(f for f in functions(_module(body, 1)) if f.sym_name.data == "k")


def _module(body: str, items: int, others: str = "") -> ModuleOp:
    source = f"""
func.func @main(%x: memref<1000xi8>, %y: memref<1000xi8>) attributes {{qmlir.inputs = 1 : i64}} {{
  %zero = arith.constant 0 : index
  %items = arith.constant {items} : index
  func.call @k(%x, %y, %zero, %items) : (memref<1000xi8>, memref<1000xi8>, index, index) -> ()
  func.return
}}
func.func private @k(%x: memref<1000xi8>, %y: memref<1000xi8>, %begin: index, %end: index)
    attributes {{qmlir.parallel}} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %4 = arith.constant 4 : index
  %10 = arith.constant 10 : index
  scf.for %i = %begin to %end step %1 {{
{body}
  }}
  func.return
}}
{others}
"""
    module = Parser(make_context(), source).parse_module()
    module.verify()
    return module


def functions(module: ModuleOp) -> list[func.FuncOp]:
    return [f for f in module.body.block.ops if isinstance(f, func.FuncOp)]


COPY = "%v = memref.load %x[%i] : memref<1000xi8>\nmemref.store %v, %y[%i] : memref<1000xi8>"


@pytest.mark.parametrize(
    ("body", "work"),
    [
        (COPY, 2),
        (f"scf.for %j = %0 to %10 step %4 {{\n{COPY}\n}}", 3 * 2),  # trips are rounded up
        (f"%n = arith.minsi %10, %4 : index\nscf.for %j = %0 to %n step %1 {{\n{COPY}\n}}", 4 * 2),
        (f"scf.for %j = %10 to %4 step %1 {{\n{COPY}\n}}", 0),
        # as many as i: 5 of 10, in the middle
        (f"scf.for %j = %0 to %i step %1 {{\n{COPY}\n}}", 5 * 2),
        # the place decides: in the middle, i is not below 4; the comparison is an operation
        (f"%c = arith.cmpi ult, %i, %4 : index\n%n = arith.select %c, %10, %1 : index\n"
         f"scf.for %j = %0 to %n step %1 {{\n{COPY}\n}}", 1 + 2),
        # bounds that depend on data: one trip, and the load of the bound
        ("%b = memref.load %x[%i] : memref<1000xi8>\n%n = arith.index_cast %b : i8 to index\n"
         f"scf.for %j = %0 to %n step %1 {{\n{COPY}\n}}", 1 + 2),
        # vectors are as many operations as they fill registers of 32 bytes
        ("%v = vector.load %x[%i] : memref<1000xi8>, vector<64xi8>\n"
         "vector.store %v, %y[%i] : memref<1000xi8>, vector<64xi8>", 2 + 2),
    ],
)  # fmt: skip
def test_work_is_what_the_loops_do(body: str, work: int) -> None:
    assert work_of(kernel(body), 10, {}) == 10 * work


INNER = """
func.func private @inner(%y: memref<?xi8>, %n: index) attributes {qmlir.inner} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  scf.for %j = %0 to %n step %1 {
    %v = memref.load %y[%j] : memref<?xi8>
    memref.store %v, %y[%j] : memref<?xi8>
  }
  func.call @inner(%y, %n) : (memref<?xi8>, index) -> ()
  func.return
}"""


def test_the_work_of_a_function_depends_on_the_numbers_that_it_gets() -> None:
    body = '%r = "memref.cast"(%y) : (memref<1000xi8>) -> memref<?xi8>\n'
    body += "func.call @inner(%r, %4) : (memref<?xi8>, index) -> ()"
    defined = {f.sym_name.data: f for f in functions(_module(body, 10, INNER))}
    assert work_of(defined["k"], 10, defined) == 10 * 4 * 2  # a call of itself counts as nothing


@settings(deadline=None, max_examples=50)
@given(items=st.integers(1, 1000), threads=st.integers(1, 256), least=st.integers(1, 500))
def test_each_share_has_an_item_and_the_least_work(items: int, threads: int, least: int) -> None:
    module = _module(COPY, items)
    ShareItemsPass(threads=threads, least_work=least).apply(make_context(), module)
    (call,) = (op for op in functions(module)[0].walk() if isinstance(op, func.CallOp))
    sharers = THREADS.of(call) or 1
    assert THREADS.on(call) == (sharers > 1)
    assert 1 <= sharers <= min(threads, items)
    assert sharers == 1 or 2 * items >= sharers * least
    assert sharers == min(threads, items) or 2 * items < (sharers + 1) * least


@pytest.mark.parametrize(
    ("elements", "others", "shares"),
    [
        (1 << 20, 1 << 10, None),  # all constants stay in a cache, and 1000 copies are little work
        (1 << 20, 1 << 23, 2),  # they do not: reading a mebibyte takes as long as 393,216 instructions
        (1 << 16, 1 << 23, None),  # and 64 KiB as long as 24,576
    ],
)
def test_reading_constants_from_memory_is_work(elements: int, others: int, shares: int | None) -> None:
    module = _module(COPY, 1000)
    main = functions(module)[0]
    call = next(op for op in main.body.block.ops if isinstance(op, func.CallOp))
    held, beside = (ConstantBufferOp(WeightsAttr(np.zeros(n, np.int8))) for n in (elements, others))
    main.body.block.insert_ops_before([held, beside], call)
    call.operands[0] = held.result
    ShareItemsPass(threads=2).apply(make_context(), module)
    assert THREADS.of(call) == shares
