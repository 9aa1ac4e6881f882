"""Remedies of the ledger: what makes an operation that stays float one on integers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import qmlir
from qmlir.policies.ledger import REMEDIES
from tests.frontends.onnx.agreement import floats, model, node
from tests.remedies.case import Action, Case, both, check, passes


def strictly(*nodes: onnx.NodeProto, constants: Mapping[str, Any] | None = None, **options: Any) -> Action:
    """Quantizes a network on x [1, 8] of which no operation may stay float."""

    def run(folder: Path) -> object:
        onnx.save(model(nodes, {"x": [1, 8]}, constants), folder / "case.onnx")
        module = qmlir.load(folder / "case.onnx")
        profile = qmlir.profile(module, [*np.load(folder / "samples.npy")])
        strict: dict[str, Any] = {"fail_on_float": True, **options}
        return qmlir.quantize(module, profile, **strict)

    return run


IMAGE, GRID = {"s": np.array([1, 1, 2, 4])}, {"g": np.full((1, 2, 2, 2), 0.3, np.float32)}
SHAPED = node("Reshape", "x s", "i")
SAMPLED: Sequence[onnx.NodeProto] = (SHAPED, node("GridSample", "i g"))
STEEP: Sequence[onnx.NodeProto] = (node("Exp", "x", "e"), node("Exp", "e", "f"), node("Log", "f"))
DOUBLE = TensorProto.DOUBLE
STRICT: dict[str, object] = {"fail_on_float": True}
ODD = 'qmlir.opaque "Odd" (%x) {reason = "unknown", source = {}} :'
FOREIGN = f"""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  calib.observe %x {{name = "x", range = [-4.0, 4.0]}} : tensor<4xf32>
  %0 = {ODD} (tensor<4xf32>) -> tensor<4xf32>
  calib.observe %0 {{name = "y", range = [0.0, 4.0]}} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}}
"""
KNOWN = FOREIGN.replace(ODD + " (tensor<4xf32>)", "nn.relu %x : tensor<4xf32>")
CASES = {
    "target": Case(
        strictly(*SAMPLED, constants=IMAGE | GRID),
        both(strictly(*SAMPLED, constants=IMAGE | GRID, fail_on_float=False), strictly(node("Sigmoid", "x"))),
    ),
    "computed-weights": Case(
        strictly(SHAPED, node("Sigmoid", "i", "w"), node("Conv", "i w"), constants=IMAGE),
        strictly(SHAPED, node("Conv", "i w"), constants=IMAGE | {"w": floats(1, 1, 2, 4)}),
    ),
    "steep": Case(
        strictly(*STEEP),
        strictly(*STEEP, policy={"rules": [{"kind": kind, "precision": "int8"} for kind in ("exp", "log")]}),
    ),
    "empty": Case(
        strictly(node("Slice", "x a b c", "e"), node("Relu", "e"), constants={"a": [0], "b": [0], "c": [1]}),
        strictly(node("Relu", "x")),
    ),
    "type": Case(
        strictly(node("Cast", "x", "d", to=DOUBLE), node("Abs", "d", "e"), node("Cast", "e", to=TensorProto.FLOAT)),
        strictly(node("Abs", "x")),
    ),
    "unknown": Case(passes(FOREIGN, ("quantize", STRICT)), passes(KNOWN, ("quantize", STRICT))),
}


@pytest.mark.parametrize("code", CASES)
def test_what_the_ledger_advises_works(code: str, folder: Path) -> None:
    check(REMEDIES[code], CASES[code], folder)
