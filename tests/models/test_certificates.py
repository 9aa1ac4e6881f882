"""`make certify`: a seeded draw of its networks on a few inputs, and what it says of those that do not hold."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from docs.measurements import certificates
from docs.measurements.certificates import measured, networks
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text

INPUTS, DRAWN = 3, 4

MINUTES = ("super_resolution", "peers_resnet50", "peers_minilm", "light_densenet121", "light_resnet50")
MINUTES += ("light_alexnet", "light_zfnet", "light_vgg19", "light_inception_v1", "light_inception_v2")
"""Networks that take minutes each; only `make certify` has them."""

SMALL = sorted(set(networks()) - set(MINUTES))


@pytest.mark.models
@pytest.mark.parametrize("name", np.random.default_rng(20).choice(SMALL, min(DRAWN, len(SMALL)), replace=False))
def test_a_network_is_certified_and_computed_as_proved(name: str) -> None:
    holds, line = measured(name, INPUTS)
    assert holds, line
    assert f"{INPUTS} of {INPUTS} outputs as the reference" in line


def _floats() -> ModuleOp:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = nn.exp %x : tensor<4xf32> -> tensor<4xf32> "
    return parse_text(make_context(), text + "func.return %0 : tensor<4xf32> }", "text")


def _integers() -> ModuleOp:
    return qmlir.quantize(_floats(), data=[np.linspace(-1, 1, 4, dtype=np.float32)])


def test_a_network_in_floats_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "networks", lambda: {"floats": _floats})
    holds, line = measured("floats", INPUTS)
    assert not holds
    assert line.startswith("floats ")
    assert "must be a quantized network" in line


def test_other_bits_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "networks", lambda: {"exp": _integers})
    holds, line = measured("exp", INPUTS)
    assert holds, line
    assert f"{INPUTS} of {INPUTS} outputs" in line

    class Off:
        def run_in_order(self, arrays: Any) -> list[Any]:
            return [np.full(4, -1, np.float32)]

    monkeypatch.setattr(qmlir, "reference", lambda module: Off())
    holds, line = measured("exp", INPUTS)
    assert not holds
    assert f"0 of {INPUTS} outputs" in line


@pytest.mark.slow
def test_an_error_ends_one_network_only(capsys: pytest.CaptureFixture[str]) -> None:
    """The process that computes it knows no such name."""
    holds, line = certificates.alone("nothing", INPUTS)
    assert not holds
    assert line == "nothing            error: KeyError: 'nothing'"
    assert "Traceback" in capsys.readouterr().err
