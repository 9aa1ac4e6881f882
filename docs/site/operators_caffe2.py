"""The Caffe2 tables of `OPERATORS.md`: what each operator becomes is seen by importing a small net of it."""

from collections.abc import Mapping

from integer_forms import MEANING, IntegerForms

from qmlir.dialects import nn
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.caffe2.walk import CONVERTERS, UNCONVERTED
from tests.frontends.caffe2.samples import BOTH, samples

HEADER = """
# Caffe2 operators

* **on**: *integers* that stand for real numbers, stored as uint8; *floats*; or *both*, for operators that move them.
* **integer CPU**: {integers}.
* **becomes**: operations of `nn`; `reshape`, `transpose` are left out beside others.

| Caffe2 | on | integer CPU | becomes |
|---|---|---|---|
"""

UNCONVERTED_HEADER = """
## Caffe2 operators without a converter

They import as `qmlir.opaque` with this reason, as every operator does that no table has.

| operator | reason |
|---|---|
"""

LAYOUT = frozenset({nn.ReshapeOp.name, nn.TransposeOp.name})


def caffe2_matrix(forms: IntegerForms) -> str:
    """Returns the tables, with their headings."""
    known = samples()
    lines = [_line(kind, *known[kind], forms) for kind in CONVERTERS.operators()]
    reasons = "".join(f"| {kind} | {UNCONVERTED[kind]} |\n" for kind in sorted(UNCONVERTED))
    return HEADER.format(integers=MEANING) + "".join(lines) + UNCONVERTED_HEADER + reasons


def _line(kind: str, net: bytes, shapes: Mapping[str, str], forms: IntegerForms) -> str:
    names = {op.name for op in load_caffe2(net, shapes=shapes).walk() if not op.name.startswith(("func.", "builtin."))}
    names -= {nn.ConstantOp.name, StorageCastOp.name}
    becomes = names - LAYOUT or names
    on = "both" if kind in BOTH else "integers" if kind.startswith("Int8") else "floats"
    shown = ", ".join(f"`{n.removeprefix('nn.')}`" for n in sorted(becomes)) or ("—" if shapes else "a constant")
    return f"| {' | '.join((kind, on, forms.cell(becomes), shown))} |\n"
