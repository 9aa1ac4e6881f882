"""Whole networks for a device of 16 bits that only shifts: no operation is left float without a word about it.

ResNet-50 is that of the peers, AlexNet has ONNX's graph with weights drawn anew; both go through qmlir-opt with
`--quantize="schema=symmetric_with_power2_scale precision=int16"`. Random weights: what is shown is arithmetic.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import qmlir
from qmlir.cli import opt
from qmlir.policies.ledger import decisions
from tests.models.networks import sqnr
from tests.models.redrawn import redrawn

Array = npt.NDArray[Any]
Find = Callable[[str], Path]

pytestmark = [pytest.mark.models, pytest.mark.slow]

OPTIONS = "schema=symmetric_with_power2_scale precision=int16"
PROFILED, SCORED = 4, 3


@dataclass(frozen=True)
class Expected:
    """What a network is to become.

    integer   kind → how many operations compute in integers, or move them
    floats    kind → how many stay float, with a reason
    decibels  the least signal to noise of its results
    """

    integer: dict[str, int]
    floats: dict[str, int]
    decibels: float


EXPECTED = {
    "resnet50": Expected(
        {
            "conv2d": 53,
            "add": 16,
            "max_pool2d": 1,
            "global_average_pool": 1,
            "fully_connected": 1,
            "transpose": 1,
            "reshape": 1,
        },
        {},
        40.0,
    ),
    "alexnet": Expected(
        {
            "conv2d": 5,
            "local_response_normalization": 2,
            "max_pool2d": 3,
            "fully_connected": 3,
            "softmax": 1,
            "transpose": 1,
            "reshape": 1,
        },
        {},
        40.0,
    ),
}
"""Each relu is part of the convolution or sum before it."""


def _resnet50(find: Find, folder: Path) -> Path:
    if "QMLIR_PEERS" in os.environ:
        return Path(os.environ["QMLIR_PEERS"]) / "models" / "resnet50.onnx"
    command = [sys.executable, "-W", "ignore", str(find("peers/build_models.py")), "--only", "resnet50", "--fp32-only"]
    environment = {**os.environ, "QMLIR_PEERS": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "models" / "resnet50.onnx"


def _alexnet(find: Find, folder: Path) -> Path:
    onnx.save(redrawn("light_bvlc_alexnet"), folder / "alexnet.onnx")
    return folder / "alexnet.onnx"


ALWAYS = ("alexnet",)
"""What a plain run takes."""

MAKE = {"resnet50": _resnet50, "alexnet": _alexnet}


def pictures(seed: int, count: int) -> list[Array]:
    random = np.random.default_rng(seed)
    return [random.standard_normal((1, 3, 224, 224), np.float32) for _ in range(count)]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_operation_is_integer_or_has_a_reason(name: str, shared: Find, tmp_path: Path) -> None:
    if "QMLIR_MODELS_SHARE" not in os.environ and name not in ALWAYS:
        pytest.skip("make models runs it")
    expected = EXPECTED[name]
    path, profile, out = MAKE[name](shared, tmp_path), tmp_path / "profile.yaml", tmp_path / "quantized.mlir"
    module = qmlir.load(path)
    qmlir.profile(module, pictures(0, PROFILED)).save(profile)
    assert opt.main([str(path), "--simplify", f"--quantize={OPTIONS} profile={profile}", "-o", str(out)]) == 0
    quantized = qmlir.load(out)

    ledger = decisions(quantized)
    outcomes = {
        outcome: Counter(e.operation.removeprefix("nn.") for e in ledger if e.outcome == outcome)
        for outcome in ("quantized", "float")
    }
    assert outcomes == {"quantized": expected.integer, "float": expected.floats}
    assert all(e.reason and e.remedy for e in ledger if e.outcome == "float")

    floats, integers, meaning = qmlir.compile(module), qmlir.compile(quantized), qmlir.reference(quantized)
    samples = pictures(7, SCORED)
    truth, got = (np.stack([np.asarray(each(x)) for x in samples]) for each in (floats, integers))
    np.testing.assert_array_equal(np.asarray(meaning(samples[0])), got[0])
    found = sqnr(truth, got)
    sys.stderr.write(f"\n{name}: SQNR {found:.1f} dB, {dict(outcomes['float']) or 'no'} operations float\n")
    assert found >= expected.decibels
