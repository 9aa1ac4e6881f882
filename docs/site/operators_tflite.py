"""The TFLite tables of `OPERATORS.md`.

What each operator becomes is seen by importing the small files of the tests; how its results compare with LiteRT's is
what `deviations.yaml` says, which the conformance tests hold to what happens.
"""

from dataclasses import dataclass, field
from functools import partial

import tflite
from integer_forms import MEANING, IntegerForms

from qmlir.dialects import nn
from qmlir.frontends.tflite import load_tflite
from qmlir.frontends.tflite.converters import STABLEHLO, reason_against
from qmlir.frontends.tflite.walk import CONVERTERS
from tests.conformance import deviations
from tests.conformance.operators_tflite import ORACLES, subjects
from tests.frontends.tflite.cases import FORMATS
from tests.frontends.tflite.test_detection import OPTIONS, chosen, post_process
from tests.frontends.tflite.test_recurrent import lstm, rnn
from tests.frontends.tflite.test_streaming import svdf

HEADER = """
# TFLite operators

* **float32** … **int16**: the ways of storing numbers in which tests compare the operator with LiteRT; int16 is that of
  activations, beside int8 weights; *plain*: integers or truth values that stand for themselves.
* **integer CPU**: {integers}.
* **{numerics}**: by how many steps
  at most results differ from those of LiteRT's kernels of that name, the default's from what LiteRT runs by default;
  *=*: nowhere (floats: within 1e-5 of the largest; default: by one step at most); *refused*: qmlir says why it cannot.
  The reasons are in `tests/conformance/deviations.yaml`.
* **becomes**: operations of `nn` on f32; *no test*: what it becomes is not tested on its own.

Weights stored as integers beside float activations count as the floats that they stand for, under all numerics. LiteRT
quantizes the activations of such layers row by row when it runs, and differs by what that loses. Such layers with
states would keep the difference: LSTM and RNN quantize row by row, too, and SVDF is refused.

| operator | {formats} | plain | integer CPU | {numerics_columns} | becomes |
|---|{rules}---|---|---|
"""

UNCONVERTED = """
## TFLite operators without a converter

They import as `qmlir.opaque` with this reason, so that one run finds all of them.

| operator | reason |
|---|---|
"""

LAYOUT = frozenset({nn.ReshapeOp.name, nn.TransposeOp.name})


@dataclass
class Tested:
    """What the tests have of an operator.

    formats   those in which it is compared
    becomes   operations of nn, by importing files of its first format
    fallback  whether quantized files have it on floats between casts
    steps     numerics → format → the most that is listed; −1 where it is refused
    """

    formats: set[str] = field(default_factory=set[str])
    becomes: set[str] = field(default_factory=set[str])
    fallback: bool = False
    steps: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])


def tested() -> dict[str, Tested]:
    """By operator."""
    found: dict[str, Tested] = {}
    listed = deviations.read()
    for subject in subjects():
        entry = found.setdefault(subject.operator, Tested())
        operations = _operations(subject.build(0))
        if not entry.formats or entry.formats <= {subject.format}:
            entry.becomes |= operations
        if subject.format not in ("float32", "int32", "bool"):
            entry.fallback |= "quant.dcast" in operations and subject.operator not in CASTS
        entry.formats.add(subject.format)
        for numerics in ORACLES:
            if (known := listed.get((numerics, subject.name, subject.format))) is not None:
                steps = entry.steps.setdefault(numerics, {})
                most = -1 if known[0].startswith(deviations.REFUSED) else known[1]
                steps[subject.format] = max(steps.get(subject.format, -1), most)
    for kind, operations in CASTS.items():
        found[kind].becomes &= operations
    return found


CASTS = {"QUANTIZE": {"quant.qcast", nn.RequantizeOp.name}, "DEQUANTIZE": {"quant.dcast"}}


CONSTANTS = ("BROADCAST_ARGS", "RANGE", "RANK", "SHAPE", "UNIQUE", "ZEROS_LIKE")
"""Operators whose results are known at import."""

CALLS = ("CALL", "IF", "WHILE")
"""Operators that stand for other subgraphs."""

KEPT = {
    "LSTM": (partial(lstm, steps=False), ("float32", "int8")),
    "RNN": (partial(rnn, steps=False), ("float32",)),
    "SVDF": (partial(svdf, quantized=True), ("float32", "int8")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (lstm, ("float32", "int8", "int16")),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (rnn, ("float32",)),
    "WHERE": (chosen, ("float32",)),
    "CUSTOM.TFLite_Detection_PostProcess": (lambda: post_process(OPTIONS), ("float32",)),
}
"""Operators whose results depend on the call before or on the data: a file, and the formats that tests of their own
compare with LiteRT."""

VARIABLES = ("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE")
"""Operators on variables that live from call to call."""


def _becomes(kind: str, entry: Tested) -> str:
    """What an operator becomes, in words."""
    if kind in CONSTANTS or kind in CALLS:
        return "a constant" if kind in CONSTANTS else "what the subgraph becomes"
    if kind in VARIABLES:
        entry.formats.update(("float32", "int8"))
        return "a state"
    if kind in KEPT:
        make, formats = KEPT[kind]
        entry.formats.update(formats)
        entry.becomes = _operations(make())
    becomes = entry.becomes - LAYOUT or entry.becomes
    return ", ".join(f"`{n.removeprefix('nn.')}`" for n in sorted(becomes)) or "no test"


def _operations(data: bytes) -> set[str]:
    names = {op.name for op in load_tflite(data).walk() if not op.name.startswith(("func.", "builtin."))}
    return names - {nn.ConstantOp.name}


def tflite_matrix(forms: IntegerForms) -> str:
    """The tables, with their headings."""
    known = tested()
    lines = [_line(kind, known.get(kind, Tested()), forms) for kind in CONVERTERS.operators()]
    head = HEADER.format(
        integers=MEANING,
        numerics="**, **".join(ORACLES),
        formats=" | ".join(FORMATS),
        numerics_columns=" | ".join(ORACLES),
        rules="---|" * (len(FORMATS) + len(ORACLES)),
    )
    missing = "".join(f"| {kind} | {reason} |\n" for kind, reason in _missing())
    return head + "".join(lines) + UNCONVERTED + missing


def _line(kind: str, entry: Tested, forms: IntegerForms) -> str:
    shown = _becomes(kind, entry)
    becomes = entry.becomes - LAYOUT or entry.becomes
    marks = ["yes" if f in entry.formats else "—" for f in FORMATS]
    plain = ", ".join(sorted(entry.formats - set(FORMATS))) or "—"
    compared = [_steps(entry, numerics) for numerics in ORACLES]
    computed = forms.cell(becomes, fallback=entry.fallback)
    return f"| {' | '.join((kind, *marks, plain, computed, *compared, shown))} |\n"


def _steps(entry: Tested, numerics: str) -> str:
    """What is listed of an operator in one numerics, by format."""
    if not entry.formats:
        return "—"
    steps = entry.steps.get(numerics, {})
    formats = [f for f in (*FORMATS, *sorted(steps)) if f in steps]
    return ", ".join(f"{f}: {'refused' if steps[f] < 0 else steps[f]}" for f in dict.fromkeys(formats)) or "="


def _missing() -> list[tuple[str, str]]:
    """The operators of the schema that have no converter, those of StableHLO together."""
    kinds = {k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)} - {"CUSTOM"}
    reasons = {k: reason_against(k) for k in kinds - set(CONVERTERS.operators())}
    alone = [(k, reason) for k, reason in sorted(reasons.items()) if reason != STABLEHLO]
    return [*alone, ("STABLEHLO_…", STABLEHLO), ("CUSTOM", reason_against("CUSTOM"))]
