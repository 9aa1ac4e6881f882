"""The checker's rules of attention: exponentials that weight products, and quotients by their sums, row by row."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.checker import CheckError, check
from qmlir.compiler import to_integers
from qmlir.dialects.qint import ExponentialsOp, MatMulOp, RowQuotientOp
from qmlir.dialects.qint.requantize import int32
from qmlir.errors import NodeError
from qmlir.ir.weights import WeightsAttr
from tests.checker.certificates import CERTIFICATES, read


@pytest.fixture(scope="module")
def integers(tmp_path_factory: pytest.TempPathFactory) -> ModuleOp:
    """Attention over the input itself, on integers."""
    folder = tmp_path_factory.mktemp("attention")
    text = """
    func.func @main(%x: tensor<1x6x4xf32>) -> tensor<1x6x4xf32> {
      %t = nn.transpose %x {permutation = array<i64: 0, 2, 1>} : tensor<1x6x4xf32> -> tensor<1x4x6xf32>
      %s = nn.matmul %x, %t : tensor<1x6x4xf32>, tensor<1x4x6xf32> -> tensor<1x6x6xf32>
      %p = nn.softmax %s {axis = 2 : i64} : tensor<1x6x6xf32> -> tensor<1x6x6xf32>
      %y = nn.matmul %p, %x : tensor<1x6x6xf32>, tensor<1x6x4xf32> -> tensor<1x6x4xf32>
      func.return %y : tensor<1x6x4xf32>
    }
    """
    (folder / "float.mlir").write_text(text)
    rng = np.random.default_rng(1)
    data = [rng.normal(size=(1, 6, 4)).astype(np.float32) for _ in range(4)]
    return to_integers(qmlir.quantize(folder / "float.mlir", data=data, measure=False))


def op_of(module: ModuleOp, kind: Any, last: bool = True) -> Any:
    return [o for o in module.walk() if isinstance(o, kind)][-1 if last else 0]


def change(key: str, new: Callable[[int], int]) -> Callable[[ModuleOp], None]:
    """What changes a number of the quotient."""

    def changed(module: ModuleOp) -> None:
        op = op_of(module, RowQuotientOp)
        before = op.properties[key]
        value = new(before.value.data)
        op.properties[key] = IntegerAttr(value, i64) if before.type == i64 else int32(value)

    return changed


def table(change: Callable[[Any], Any]) -> Callable[[ModuleOp], None]:
    """What changes the table of the exponentials."""

    def changed(module: ModuleOp) -> None:
        op = op_of(module, ExponentialsOp)
        op.properties["table"] = WeightsAttr(change(op.table.array.copy()))

    return changed


def of_other_weights(module: ModuleOp) -> None:
    """Divides by the sums of other exponentials."""
    quotient, own = op_of(module, RowQuotientOp), op_of(module, ExponentialsOp)
    other = own.clone()
    own.parent.insert_op_before(other, quotient)
    quotient.operands[1] = other.results[0]


def of_shifted_weights(module: ModuleOp) -> None:
    """Weights the products by the exponentials less a number."""
    op_of(module, MatMulOp).properties["lhs_zero_point"] = int32(3)


TAMPERED: dict[str, tuple[Callable[[ModuleOp], None], str]] = {
    "less room for quotients": (change("offset", lambda n: n // 4), "must have quotients below"),
    "more room than 63 bits have": (change("offset", lambda n: 1 << 20), "must have quotients below"),
    "larger factor": (change("unit", lambda n: n * 8), "must have quotients below"),
    "fewer digits of the factor": (change("fraction", lambda n: 8), "must have quotients below"),
    "more digits than fit": (change("fraction", lambda n: 44), "must"),
    "other weights": (of_other_weights, "must divide sums of products by the sum of their weights"),
    "shifted weights": (of_shifted_weights, "must divide sums of products by the sum of their weights"),
    "negative exponentials": (table(lambda t: np.concatenate([t[:1], -t[1:]])), "must have quotients below"),
    "exponentials that are all 0": (table(lambda t: 0 * t), "must have a weight of at least 1 in each row"),
    "a greatest score without weight": (
        table(lambda t: np.concatenate([[0], t[1:]]).astype(t.dtype)), "must have a weight of at least 1 in each row",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERED)
def test_tampered_attention_has_no_proof(what: str, integers: ModuleOp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the operations' own verification would let it pass: the checker does not rely on it."""
    for kind in (ExponentialsOp, RowQuotientOp):
        monkeypatch.setattr(kind, "verify_", lambda _: None)
    module = integers.clone()
    certificate_of(module)
    tamper, why = TAMPERED[what]
    tamper(module)
    with pytest.raises(NodeError, match=why):
        certificate_of(module)


@pytest.mark.parametrize("operation", ["qint.exponentials", "qint.row_quotient"])
def test_a_certificate_states_no_smaller_error(operation: str, tmp_path: Path) -> None:
    path = CERTIFICATES["attention"](tmp_path)
    check(path)
    content = read(path)
    (stated,) = [o for o in content["operations"] if o["operation"] == operation]
    stated["rounding"]["error"] *= 0.999
    path.write_text(json.dumps(content))
    with pytest.raises(CheckError, match="error"):
        check(path)
