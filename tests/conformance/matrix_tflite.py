"""The TFLite table of `OPERATORS.md`: what each operator becomes, seen by importing the small files of the tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from qmlir.dialects import nn
from qmlir.dialects.interfaces import TensorOp
from qmlir.frontends.tflite import load_tflite
from qmlir.frontends.tflite.converters import converts
from qmlir.target import Target
from tests.frontends.tflite.cases import CASES, FORMATS
from tests.frontends.tflite.networks import CONTRACTIONS, contraction, mixed

HEADER = """
# TFLite operators

* **float32** … **int16**: the ways of storing numbers in which tests compare the operator with LiteRT; int16 is that of
  activations, beside int8 weights.
* **integer CPU**: the storage types that the CPU computes in integers; *float*: it is computed in f32 between casts.
* **becomes**: operations of `nn` on f32; *no test*: what it becomes is not tested on its own.

| operator | {formats} | integer CPU | becomes |
|---|{rules}---|---|
"""

LAYOUT = frozenset({nn.ReshapeOp.name, nn.TransposeOp.name})
PASSING = ("float32", "int8", "uint8")
"""The formats in which contractions are compared; their 64-bit sums have no integer form."""


@dataclass
class Tested:
    """What the tests have of an operator.

    formats  those in which it is compared
    becomes  operations of nn, by importing float files
    island   whether quantized files have it on floats between casts
    """

    formats: set[str] = field(default_factory=set[str])
    becomes: set[str] = field(default_factory=set[str])
    island: bool = False


def tested() -> dict[str, Tested]:
    """By operator."""
    found: dict[str, Tested] = {}
    for case in CASES:
        entry = found.setdefault(case.kind, Tested())
        entry.formats |= set(case.formats)
        entry.becomes |= _operations(case.build(case.formats[0]))
        for format in set(case.formats) - {"float32"}:
            entry.island |= "quant.dcast" in _operations(case.build(format))
    for kind in CONTRACTIONS:
        found[kind] = Tested(set(PASSING), _operations(contraction(kind, "float32")))
    for kind in ("QUANTIZE", "DEQUANTIZE"):
        found[kind] = Tested({"int8", "uint8", "int16"}, _operations(mixed("int8")) & CASTS[kind])
    return found


CASTS = {"QUANTIZE": {"quant.qcast", nn.RequantizeOp.name}, "DEQUANTIZE": {"quant.dcast"}}


def _operations(data: bytes) -> set[str]:
    names = {op.name for op in load_tflite(data).walk() if not op.name.startswith(("func.", "builtin."))}
    return names - {nn.ConstantOp.name}


def tflite_matrix(classes: Mapping[str, type[TensorOp]], target: Target) -> str:
    """The table, with its heading."""
    known = tested()
    lines = [_line(kind, known.get(kind, Tested()), classes, target) for kind in converts.operators()]
    return HEADER.format(formats=" | ".join(FORMATS), rules="---|" * len(FORMATS)) + "".join(lines)


def _line(kind: str, entry: Tested, classes: Mapping[str, type[TensorOp]], target: Target) -> str:
    becomes = entry.becomes - LAYOUT or entry.becomes
    marks = ["yes" if f in entry.formats else "—" for f in FORMATS]
    storages = [set(target.integer.get(n, ())) for n in becomes if n in classes]
    integer = ", ".join(sorted(set.intersection(*storages))) if storages and not entry.island else ""
    shown = ", ".join(f"`{n.removeprefix('nn.')}`" for n in sorted(becomes)) or "no test"
    return f"| {' | '.join((kind, *marks, integer or ('float' if storages else '—'), shown))} |\n"
