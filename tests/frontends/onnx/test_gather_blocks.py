"""onnxruntime's GatherBlockQuantized against onnxruntime."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qmlir
from qmlir.dialects.nn import ConstantOp
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import Array, load, onnxruntime_run, ops_of, reason
from tests.frontends.onnx.quantized_models import MICROSOFT, model, node

ROWS, COLUMNS, BLOCK = 12, 64, 16
INDICES = {"i": np.array([[3, 0, -1], [7, 7, 11]])}


def constants(kind: str, *, zero: bool) -> dict[str, Array]:
    """A table [rows, columns], and its parameters, packed if it is of bytes of two integers."""
    rng, shape = np.random.default_rng(4), (ROWS, COLUMNS // BLOCK)
    found: dict[str, Array] = {"s": rng.uniform(0.01, 0.1, shape).astype(np.float32)}
    if kind.startswith("packed"):
        bits = int(kind.removeprefix("packed"))
        found["w"] = rng.integers(0, 256, (ROWS, COLUMNS * bits // 8)).astype(np.uint8)
        points: Array = rng.integers(0, 256, (ROWS, shape[1] * bits // 8)).astype(np.uint8)
    else:
        dtype = np.dtype(getattr(ml_dtypes, kind))
        low = -8 if kind == "int4" else 0
        found["w"] = rng.integers(low, low + 16, (ROWS, COLUMNS)).astype(np.int32).astype(dtype)
        points = rng.integers(low, low + 16, shape).astype(np.int32).astype(dtype)
    return found | ({"z": points} if zero else {})


def network(kind: str, *, zero: bool, turned: bool = False, **attributes: Any) -> onnx.ModelProto:
    given = constants(kind, zero=zero)
    axes = {"gather_axis": 0, "quantize_axis": 1}
    if turned:
        given = {name: np.ascontiguousarray(array.T) for name, array in given.items()}
        axes = {"gather_axis": 1, "quantize_axis": 0}
    operator = node("GatherBlockQuantized", f"w i s{' z' if zero else ''}", "y", MICROSOFT,
                    **({"block_size": BLOCK} | axes | attributes))  # fmt: skip
    proto = model([operator], INDICES, ["y"], given)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return proto


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize(("kind", "turned"), [("int4", False), ("uint4", False), ("uint4", True), ("int4", True)])
def test_integers_of_4_bits(kind: str, turned: bool, zero: bool) -> None:
    agrees(network(kind, zero=zero, turned=turned))


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
def test_packed_bytes(bits: int, zero: bool) -> None:
    agrees(network(f"packed{bits}", zero=zero, bits=bits))


def agrees(proto: onnx.ModelProto) -> None:
    """On the reference and in machine code; the table stays integers."""
    module = load(proto)
    (wanted,) = onnxruntime_run(proto, INDICES)
    for run in (qmlir.reference(module), qmlir.compile(module)):
        np.testing.assert_array_equal(run(INDICES["i"]), wanted)
    tables = [o.value.array for o in ops_of(module) if isinstance(o, ConstantOp)]
    assert {a.dtype for a in tables if a.size == ROWS * COLUMNS} <= {np.dtype(np.int8), np.dtype(np.uint8)}


def test_what_is_refused() -> None:
    assert "it stores 3 bits" in reason(network("int4", zero=False, bits=3))
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"block_size": 32}, r"its scales must be of shape \[12, 2\]"),
        ({"quantize_axis": 0}, "must differ, got 0"),
    )
    for attributes, message in wrong:
        with pytest.raises(NodeError, match=message):
            load_onnx(network("int4", zero=False, **attributes))
