"""What `qint-to-tosa=version=0.80` writes is read again and printed as it was."""

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp

from qmlir.compiler import Pipeline
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.ir.verify import verify
from qmlir.ir.weights import WeightsMode, module_text
from tests.conftest import ROOT

FOLDER = ROOT / "filecheck_tests" / "lowering" / "qint_to_tosa"


def read(text: str) -> ModuleOp:
    module = parse_text(make_context(), text, "f.mlir")
    verify(module)
    return module


def written(module: ModuleOp) -> list[tuple[str, int, dict[str, str]]]:
    """Each operation's name, its number of operands and its attributes, in whatever order they were printed."""
    found: list[tuple[str, int, dict[str, str]]] = []
    for op in module.walk():
        held = {**op.properties, **op.attributes}
        held.pop("op_name__", None)
        name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
        found.append((name, len(op.operands), {key: str(value) for key, value in held.items()}))
    return found


@pytest.mark.parametrize(
    "file",
    sorted(f for f in FOLDER.glob("*.mlir") if f.stem not in ("pair_lookup", "qint-to-tosa_invalid")),
    ids=lambda f: f.stem,
)
def test_what_is_written_is_read(file: Path) -> None:
    module = parse_text(make_context(), file.read_text(), file.name)
    module = Pipeline(("qint-to-tosa", {"version": "0.80"}))(module)
    again = read(module_text(module, WeightsMode.INLINE))
    assert written(again) == written(module)
    text = module_text(again, WeightsMode.INLINE)
    assert module_text(read(text), WeightsMode.INLINE) == text


def test_the_custom_form_of_older_tools_is_read() -> None:
    module = read(
        """func.func @f(%x: tensor<1x4x4x2xi8>, %w: tensor<1x3x2x2xi8>, %b: tensor<1xi32>) -> tensor<1x4x3x1xi32> {
  %y = tosa.conv2d %x, %w, %b {pad = array<i64: 1, 1, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>,
    quantization_info = #tosa.conv_quant<input_zp = -5, weight_zp = 0>}
    : (tensor<1x4x4x2xi8>, tensor<1x3x2x2xi8>, tensor<1xi32>) -> tensor<1x4x3x1xi32>
  func.return %y : tensor<1x4x3x1xi32>
}"""
    )
    (convolution,) = (op for op in module.walk() if isinstance(op, UnregisteredOp))
    assert convolution.op_name.data == "tosa.conv2d"
    assert "#tosa.conv_quant<input_zp = -5, weight_zp = 0>" in str(module)
