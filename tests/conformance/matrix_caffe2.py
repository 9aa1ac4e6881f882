"""The Caffe2 tables of `OPERATORS.md`: what each operator becomes is seen by importing a small net of it."""

from collections.abc import Mapping

from qmlir.dialects import nn
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.target import Target
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.caffe2.converters import UNCONVERTED
from qmlir.frontends.caffe2.walk import CONVERTERS
from qmlir.ir.interfaces import TensorOp
from tests.conformance.integer_forms import integer_form
from tests.frontends.caffe2.samples import samples

HEADER = """
# Caffe2 operators

* **on**: *integers* that stand for real numbers, stored as uint8; *floats*; or *both*, for operators that move them.
* **integer CPU**: the storage types that the CPU computes in integers; *float*: it is computed in f32.
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

BOTH = frozenset(
    """Alias Copy CopyCPUToIDEEP CopyCPUToMKL CopyFromCPUInput CopyIDEEPToCPU CopyMKLToCPU CopyOnDeviceLike Dropout
    EnsureCPUOutput EnsureDense ExpandDims Expand Flatten FlattenToVec Gather BatchGather Identity NCHW2NHWC NHWC2NCHW
    Reshape ResizeNearest ScaleGradient Slice Split DepthSplit Squeeze StopGradient Tile Transpose UpsampleNearest
    ChannelShuffle Shape Size IsEmpty""".split()
)
"""Operators that take tensors of both kinds."""


def caffe2_matrix(classes: Mapping[str, type[TensorOp]], target: Target) -> str:
    """Returns the tables, with their headings."""
    known = samples()
    lines = [_line(kind, *known[kind], classes, target) for kind in CONVERTERS.operators()]
    reasons = "".join(f"| {kind} | {UNCONVERTED[kind]} |\n" for kind in sorted(UNCONVERTED))
    return HEADER + "".join(lines) + UNCONVERTED_HEADER + reasons


def _line(
    kind: str, net: bytes, shapes: Mapping[str, str], classes: Mapping[str, type[TensorOp]], target: Target
) -> str:
    names = {op.name for op in load_caffe2(net, shapes=shapes).walk() if not op.name.startswith(("func.", "builtin."))}
    names -= {nn.ConstantOp.name, StorageCastOp.name}
    becomes = names - LAYOUT or names
    on = "both" if kind in BOTH else "integers" if kind.startswith("Int8") else "floats"
    found = [classes[n] for n in becomes if n in classes]
    computed = integer_form(found, target) if found else "—"
    shown = ", ".join(f"`{n.removeprefix('nn.')}`" for n in sorted(becomes)) or ("—" if shapes else "a constant")
    return f"| {' | '.join((kind, on, computed, shown))} |\n"
