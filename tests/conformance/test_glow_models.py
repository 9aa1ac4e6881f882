"""Glow's test models in ONNX's text form: each imports, or is not what ONNX calls a model, in one line.

They want Glow's own operators, bugs of exporters and errors on purpose; where qmlir refuses one, ONNX's checker has to
refuse it too, or `NOT_ONNX` says what the checker overlooks. What is ONNX and not imported is in `UNSUPPORTED`.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from google.protobuf import text_format
from onnx import checker

from qmlir.errors import QmlirError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report

COUNT = 241

NOT_ONNX = {
    "if_false": "a branch of If has no inputs",
    "if_true": "a branch of If has no inputs",
    "preluInvalidBroadcastSlope": "the slope of PRelu does not broadcast to its input",
    "simpleConvTransposeOutShape": "output_padding has one value for each of two spatial dimensions, not four",
    "simpleConvTransposeOutShapeSameLower": "output_padding has one value for each of two spatial dimensions, not four",
    "simpleConvTransposeOutShapeSameUpper": "output_padding has one value for each of two spatial dimensions, not four",
}
"""What ONNX's checker does not see: it looks into neither shapes nor subgraphs."""

UNSUPPORTED: dict[str, str] = {}
"""Valid models that do not import, with what stands in the refusal."""

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]


def fault(model: onnx.ModelProto) -> str:
    """What ONNX finds wrong with a model, in a line; empty if nothing."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.name = whole.graph.name or "main"  # many lack it, and it matters to nobody
    try:
        checker.check_model(whole)
    except Exception as error:  # C++: of several types
        return str(error).strip().splitlines()[0]
    return ""


def refusal(model: onnx.ModelProto) -> str:
    """Why qmlir does not import a model; empty if it does."""
    try:
        module = load_onnx(model)
        module.verify()
    except QmlirError as error:
        return str(error)
    return "; ".join(f"{k.kind}: {k.reason}" for k in opaque_report(module))


def test_each_model_imports_or_is_no_onnx(shared: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    warnings.simplefilter("ignore")
    paths = sorted(shared("conformance/glow-tests-models").rglob("*.onnxtxt"))
    assert len(paths) == COUNT
    lines: list[str] = []
    wrong: list[str] = []
    kinds: Counter[str] = Counter()
    for path in paths:
        model = text_format.Parse(path.read_text(encoding="utf-8"), onnx.ModelProto())
        why, name = refusal(model), path.stem
        listed = UNSUPPORTED.get(name)
        if not why:
            kinds["import"] += 1
            wrong += [f"{name} imports and is listed"] if listed or name in NOT_ONNX else []
            continue
        fault_found = NOT_ONNX.get(name) or fault(model)
        if fault_found and not listed:
            kinds["are not ONNX"] += 1
            lines.append(f"{name}: not ONNX: {fault_found}")
        elif listed and listed in why and not fault_found:
            kinds["are not supported"] += 1
            lines.append(f"{name}: {why}")
        else:
            wrong.append(f"{name}: refused and not listed so: {why}")
    with capsys.disabled():
        sys.stdout.write(f"\nGlow's {COUNT} models: " + ", ".join(f"{n} {k}" for k, n in kinds.items()) + "\n")
        sys.stdout.writelines(f"  {line}\n" for line in lines)
    assert not wrong, "\n".join(wrong)
