"""TFLite Micro's 127 models of one operator on int16 with int8 weights, against the outputs it checks itself by.

They come from one network, SEANet; a model's inputs and outputs lie beside it as decimal numbers. All are computed, and
a seeded few of them, or with `QMLIR_CONFORMANCE` all, on the CPU too. TFLite Micro rounds as LiteRT's reference.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.ir.signature import TensorSpec
from qmlir.policies.runtimes import follow
from tests.conftest import THOROUGH

COUNTS = {
    "add": 17, "conv": 22, "leaky_relu": 23, "pad": 19, "quantize": 2, "strided_slice": 34, "sub": 5,
    "transpose_conv": 5,
}  # fmt: skip
"""Operator → models."""

ON_CPU = 127 if THOROUGH else 16

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]


def numbers(path: Path, spec: TensorSpec) -> np.ndarray:
    """The numbers of an input or output; the file's name ends in its type."""
    return np.loadtxt(path, path.stem.rpartition("_")[2], delimiter=",", ndmin=1).reshape(spec.shape)


def differing(path: Path, *, machine: bool) -> int:
    """How many elements of the output are not TFLite Micro's; `machine` for the CPU's, else the reference's."""
    module = load_tflite(path)
    follow(module, "litert-reference")
    made = qmlir.compile(module) if machine else qmlir.reference(module)
    files = sorted(path.parent.glob(f"{path.stem}_input*.csv"))
    inputs = {s.name: numbers(f, s) for s, f in zip(made.signature.inputs, files, strict=True)}
    (got,), (spec,) = made.run(inputs), made.signature.outputs
    (golden,) = path.parent.glob(f"{path.stem}_golden_*.csv")
    return int(np.count_nonzero(got != numbers(golden, spec)))


def test_each_model_reproduces(shared: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(shared("conformance/tflm-seanet-int16x8").glob("*/*.tflite"))
    assert Counter(p.parent.name for p in paths) == COUNTS
    found = {p.stem: count for p in paths if (count := differing(p, machine=False))}
    on_cpu = np.random.default_rng(0).permutation(len(paths))[:ON_CPU]
    found |= {f"{paths[i].stem} on the CPU": count for i in on_cpu if (count := differing(paths[i], machine=True))}
    with capsys.disabled():
        sys.stdout.write(f"\nTFLite Micro's {len(paths)} int16x8 models: {len(found)} differ\n")
        for kind, count in COUNTS.items():
            wrong = sum(name.startswith(kind) for name in found)
            sys.stdout.write(f"  {kind:15} {count - wrong} of {count} bit for bit\n")
    assert not found
