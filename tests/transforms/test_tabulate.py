"""Random functions of a byte, of several operations: the table that replaces them gives the same bits."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, i8, i32
from xdsl.ir import Operation, SSAValue

from qmlir.backends.reference import evaluate
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import AddOp, DivOp, LookupOp, MulOp, PairLookupOp, RequantizeOp
from qmlir.ir.signature import main_function
from qmlir.ir.verify import verify
from qmlir.transforms.qint.tabulate import TabulatePass
from tests.ops.sample import narrow, quotients, scaled, summed, weights, zeros

HALF = 1 << 30

BYTES = np.arange(-128, 128, dtype=np.int8).reshape(4, 64)


def random_function(rng: np.random.Generator) -> ModuleOp:
    """A network of 2 to 7 steps, each of results of other steps and of constants; the last two are its results."""
    function = func.FuncOp("main", ([TensorType(i8, (4, 64))], []))
    block = function.body.block
    values: list[SSAValue] = [block.args[0]]

    def do(op: Operation) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    def pick() -> SSAValue:
        return values[int(rng.integers(len(values)))]

    def other() -> SSAValue:
        number = rng.integers(-128, 128, (1, 1)[: rng.integers(3)], "i1")
        return pick() if rng.random() < 0.5 else do(ConstantOp(number))

    def table(*shape: int) -> dict[str, object]:
        return {"table": weights(rng.integers(-128, 128, shape), np.int8)}

    def step() -> SSAValue:
        points = zeros(*rng.integers(-128, 128, 2).tolist())
        ending = narrow(8, int(rng.integers(-128, 128)))
        factors = rng.integers(HALF, 2 * HALF, 2).tolist()
        match rng.integers(5):
            case 0:
                return do(LookupOp.make([pick()], table(256)))
            case 1:
                return do(PairLookupOp.make([pick(), other()], table(256, 256)))
            case 2:
                return do(AddOp.make([other(), pick()], points | ending | summed(factors, 31), element=i8))
            case 3:
                return do(DivOp.make([pick(), other()], points | ending | quotients(factors[0], 5), element=i8))
            case _:
                product = do(MulOp.make([pick(), other()], points, element=i32))
                return do(RequantizeOp.make([product], ending | scaled(factors[:1], [-6]), element=i8))

    for _ in range(rng.integers(2, 8)):
        values.append(step())
    block.add_op(func.ReturnOp(*values[-2:]))
    function.update_function_type()
    return ModuleOp([function])


@pytest.mark.parametrize("seed", range(40))
def test_tables(seed: int) -> None:
    module = random_function(np.random.default_rng(seed))
    verify(module)
    before = evaluate(main_function(module), [BYTES])
    TabulatePass().apply(Context(), module)
    verify(module)
    after = evaluate(main_function(module), [BYTES])
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    others = (ConstantOp, MulOp, func.ReturnOp)
    assert sum(not isinstance(op, others) for op in main_function(module).body.block.ops) <= 2, (
        "each result takes one pass over the data at most"
    )


def test_a_chain_of_two_thousand_tables_is_a_table() -> None:
    """Each entry of a table of 7·n + 3 mod 256 is another one, so that the chain keeps all 256 values apart."""
    table = weights((np.arange(256) * 7 + 3) % 256 - 128, np.int8)
    function = func.FuncOp("main", ([TensorType(i8, (4, 64))], []))
    value: SSAValue = function.body.block.args[0]
    for _ in range(2000):
        function.body.block.add_op(step := LookupOp.make([value], {"table": table}))
        value = step.y
    function.body.block.add_op(func.ReturnOp(value))
    function.update_function_type()
    module = ModuleOp([function])
    (before,) = evaluate(function, [BYTES])
    TabulatePass().apply(Context(), module)
    assert [type(op) for op in function.body.block.ops] == [LookupOp, func.ReturnOp]
    (after,) = evaluate(function, [BYTES])
    np.testing.assert_array_equal(before, after)
    assert np.unique(after).size == 256
