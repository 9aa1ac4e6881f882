"""The checker's rules of rows with scales of their own."""

import json
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.checker import CheckError, check
from qmlir.compiler import to_integers
from qmlir.dialects.qint import DivideRowsOp
from qmlir.dialects.qint.requantize import int32
from qmlir.errors import NodeError
from tests.checker.certificates import CERTIFICATES, read


@pytest.fixture(scope="module")
def integers(tmp_path_factory: pytest.TempPathFactory) -> ModuleOp:
    """A layer that reads divided rows, on integers."""
    path = tmp_path_factory.mktemp("rows") / "float.mlir"
    numbers = ", ".join(str(float(n)) for n in np.random.default_rng(0).normal(size=20))
    path.write_text(f"""
    func.func @main(%x: tensor<3x4xf32>) -> tensor<3x5xf32> {{
      %w = nn.constant <tensor<5x4xf32>, [{numbers}]> : tensor<5x4xf32>
      %y = nn.fully_connected %x, %w : tensor<3x4xf32>, tensor<5x4xf32> -> tensor<3x5xf32>
      func.return %y : tensor<3x5xf32>
    }}
    """)
    data = [np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)]
    return to_integers(qmlir.quantize(path, data=data, activations="dynamic", measure=False))


@pytest.mark.parametrize("limit", [0, 128, 1 << 20])
def test_a_limit_that_bytes_do_not_hold_has_no_proof(
    limit: int, integers: ModuleOp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DivideRowsOp, "verify_", lambda _: None)
    module = integers.clone()
    certificate_of(module)
    (op,) = [o for o in module.walk() if isinstance(o, DivideRowsOp)]
    op.properties["limit"] = int32(limit)
    with pytest.raises(NodeError, match=f"limit of {limit}"):
        certificate_of(module)


def test_a_certificate_states_no_smaller_error(tmp_path: Path) -> None:
    path = CERTIFICATES["divided rows"](tmp_path)
    check(path)
    content = read(path)
    stated = next(o for o in content["operations"] if o["operation"] == "qint.divide_rows")
    stated["rounding"]["error"] *= 0.999
    path.write_text(json.dumps(content))
    with pytest.raises(CheckError, match="error"):
        check(path)
