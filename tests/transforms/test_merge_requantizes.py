"""`merge-requantizes`: random pairs of requantizations, and networks of 8 and 16 bits, keep every integer."""

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, IntegerType, ModuleOp, TensorType

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.dialects.qint import RequantizeOp
from qmlir.dialects.qint.requantize import int32
from qmlir.ir.signature import main_function
from qmlir.transforms.qint.merge_requantizes import MergeRequantizesPass
from tests.conftest import THOROUGH
from tests.frontends.onnx.agreement import floats, load, model, node
from tests.ops.sample import narrow, scaled

CONTRACTS = ("single", "double", "even", "float_even")


def _pair(rng: np.random.Generator) -> ModuleOp:
    """Two requantizations of all integers of 8 or 16 bits; half of them by powers of two, which often merge."""
    widths = [int(w) for w in rng.choice([8, 16], 3)]
    function = func.FuncOp("main", ([x := TensorType(IntegerType(widths[0]), (1 << widths[0],))], []))
    value, point = function.body.block.args[0], int(rng.integers(-5, 5))
    plain = rng.random() < 0.5
    for width in widths[1:]:
        factor = 1 << 30 if plain else int(rng.integers(1 << 23, 1 << 24)) << 7
        numbers = (
            scaled([factor], [int(rng.integers(-5, 8))], str(rng.choice(CONTRACTS)))
            | {"input_zero_point": int32(point)}
            | narrow(width, point := int(rng.integers(-5, 5)))
        )
        op = RequantizeOp.make([value], numbers, element=IntegerType(width))
        function.body.block.add_op(op)
        value = op.y
    function.body.block.add_op(func.ReturnOp(value))
    function.function_type = FunctionType.from_lists([x], [value.type])
    return ModuleOp([function])


def test_pairs_keep_every_integer() -> None:
    merged = 0
    for seed in range(400 if THOROUGH else 80):
        module = _pair(np.random.default_rng(seed))
        kind = main_function(module).function_type.inputs.data[0]
        width = kind.element_type.width.data  # type: ignore[attr-defined]
        every = np.arange(-(1 << width - 1), 1 << width - 1).astype(f"i{width // 8}")
        before = evaluate(main_function(module), [every])
        merged += MergeRequantizesPass.run(module)
        module.verify()
        assert np.array_equal(before[0], evaluate(main_function(module), [every])[0]), seed
    assert merged >= 10


@pytest.mark.parametrize("kind", ["nn.tanh", "nn.concat"])
def test_networks_of_two_widths_keep_their_bits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("Sigmoid", "x", "a"), node("Tanh", "a", "b"), node("Concat", "b x", "c", axis=1)]
    network = load(model([*nodes, node("Relu", "c")], {"x": [1, 4, 8, 8]}))
    data = [{"x": floats(1, 4, 8, 8, seed=k)} for k in range(4)]
    q = qmlir.quantize(network, data=data, policy={"rules": [{"kind": kind, "precision": "int16"}]})

    def steps() -> int:
        return sum(
            op.name.startswith(("qint.requantize", "qint.lookup", "qint.inter")) for op in qmlir.to_integers(q).walk()
        )

    merged, got = steps(), [qmlir.compile(q)(data[0]), qmlir.reference(q)(data[0])]
    monkeypatch.setattr(MergeRequantizesPass, "PATTERNS", ())
    assert steps() > merged
    for y in got:
        assert np.array_equal(y, qmlir.reference(q)(data[0]))
