"""The TOSA table of `OPERATORS.md`: what `tosa-to-nn` reads.

What each operation becomes is seen by reading the samples of the tests, which compare its results with TOSA's
specification, and with Arm's reference model where that is installed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from integer_forms import MEANING, IntegerForms

from qmlir.compiler import Pipeline
from qmlir.dialects import nn
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from tests.lowering.tosa_to_nn.tosa_samples import SAMPLES, TosaSample, split

HEADER = """
# TOSA operators

Read by `qmlir.load` and `--tosa-to-nn` from TOSA 1.0 and 0.80. Each is tested against TOSA's specification, and against
Arm's reference model where that is installed.

* **in 0.80**: the name there, where it is another; — where 0.80 has no such operation.
* **types**: the element types of the tests; i48 is held in 64 bits.
* **floats become**, **integers become**: operations of `nn`, and of `qint` where they say so. Convolutions and matrix
  products of i8 with a `rescale` behind them become quantized layers of `nn` where that changes no bit.
* **integer CPU**: of what floats become, {integers}.

| operator | in 0.80 | types | floats become | integer CPU | integers become |
|---|---|---|---|---|---|
"""

UNREAD = """
## TOSA operators that are not read

They are refused with this reason.

| operator | reason |
|---|---|
| cond_if, while_loop, yield | networks of `nn` have no control flow |
| conv3d | windows of `nn` have two dimensions |
| custom | what it computes is not known |
| fft2d, rfft2d | `nn` has no Fourier transforms |
| variable, variable_read, variable_write | networks keep nothing from call to call |
"""

NAMES_IN_0_80: Mapping[str, str] = {"intdiv": "int_div", "reduce_product": "reduce_prod", "sin": "—", "cos": "—"}
FLOATS = frozenset(("f32", "f16", "bf16"))
LAYOUT = frozenset((nn.ReshapeOp.name, nn.TransposeOp.name))


@dataclass
class Row:
    """An operator: its samples' types, and the operations that they become."""

    types: set[str] = field(default_factory=set[str])
    floats: set[str] = field(default_factory=set[str])
    integers: set[str] = field(default_factory=set[str])


def tosa_matrix(forms: IntegerForms) -> str:
    """The tables, with their headings."""
    rows: dict[str, Row] = {}
    for sample in SAMPLES:
        element = _element(sample)
        row = rows.setdefault(sample.name, Row())
        row.types.add(element)
        if element not in FLOATS:
            row.integers |= _operations(sample)
        elif element == "f32":
            row.floats |= _operations(sample)
    lines = [_line(name, row, forms) for name, row in sorted(rows.items())]
    return HEADER.format(integers=MEANING) + "".join(lines) + UNREAD


def _element(sample: TosaSample) -> str:
    """The element type of a sample's data: that of its first operand, or behind a condition of the next."""
    first = sample.operands[1 if sample.name == "select" else 0]
    return split(first.type)[1]


def _operations(sample: TosaSample) -> set[str]:
    module = Pipeline("tosa-to-nn")(parse_text(make_context(), sample.text(), "sample.mlir"))
    names = {op.name for op in module.walk() if not op.name.startswith(("func.", "builtin."))}
    return names - {nn.ConstantOp.name}


def _line(name: str, row: Row, forms: IntegerForms) -> str:
    computed = forms.cell(row.floats - LAYOUT or row.floats)
    types = ", ".join(sorted(row.types, key=lambda t: (t not in FLOATS, len(t), t)))
    cells = (name, NAMES_IN_0_80.get(name, ""), types, _listed(row.floats), computed, _listed(row.integers))
    return f"| {' | '.join(cells)} |\n".replace("|  |", "| |")


def _listed(names: set[str]) -> str:
    """Operations in words; what only moves data is left out beside others."""
    return ", ".join(f"`{n.removeprefix('nn.')}`" for n in sorted(names - LAYOUT or names)) or "—"
