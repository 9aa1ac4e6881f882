"""Sums and products of operands whose scales are far from the result's.

They have LiteRT's bits, by whichever kernel LiteRT takes, or the default's if LiteRT computes nothing sensible.
"""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn.quantizable import uniform
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtime_kernels import rounded_as_default
from qmlir.policies.runtimes import follow
from tests.conftest import crossed
from tests.frontends.tflite.files import RESOLVERS, Op, T, interpreter, model, run

pytestmark = pytest.mark.filterwarnings("ignore")

SCALE = float(np.float32(2.0**-6 * 1.1))
POINTS = {"int8": 3, "uint8": 120}
OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}

FACTORS = (
    (0.37, 2**-9.9), (0.37, 2**-10), (0.37, 2**-10.1), (2**-11.5, 0.37), (2**-10.1, 2**-10.1), (0.37, 120.3),
    (255.9, 0.37),
)  # fmt: skip
"""Factors of both operands, [2] each, on both sides of the bounds of XNNPACK's sums."""


def stored(format: str) -> list[np.ndarray]:
    """All pairs of bytes: two arrays [1, 65536]."""
    every = np.arange(256) + np.iinfo(format).min
    return [np.repeat(every, 256)[None].astype(format), np.tile(every, 256)[None].astype(format)]


def written(kind: str, format: str, left: float, right: float) -> bytes:
    """A file of one operator on two tensors whose scales are `left` and `right` times the result's."""
    point, shape = [POINTS[format]], (1, 1 << 16)
    scales = {"a": SCALE * left, "b": SCALE * right, "y": SCALE}
    tensors = [T(name, shape, format, None, [float(np.float32(s))], point) for name, s in scales.items()]
    return model(tensors, [Op(kind, [0, 1], [2], OPTIONS[kind], {"FusedActivationFunction": 0}, 1)], [0, 1], [2])


def computed(module: ModuleOp, inputs: list[np.ndarray]) -> np.ndarray:
    """The reference's result, after a check that compiled code gives the same."""
    reference = qmlir.reference(module)
    named = dict(zip([s.name for s in reference.signature.inputs], inputs, strict=True))
    (found,) = reference.run(named)
    np.testing.assert_array_equal(qmlir.compile(module).run(named)[0], found)
    return found


def reason(module: ModuleOp, numerics: str) -> str:
    """Why the network's operator rounds as by default; empty if it follows the runtime."""
    (op,) = [op for op in module.walk() if op.name in ("nn.add", "nn.sub", "nn.mul")]
    assert uniform(op.results[0]).scale == np.float32(SCALE)
    return rounded_as_default(op, numerics)


@crossed({"kind": ["ADD", "SUB"], "format": POINTS, "numerics": RESOLVERS})
def test_sums_equal_litert(kind: str, format: str, numerics: str) -> None:
    for left, right in FACTORS:
        if kind == "ADD" and numerics == "litert-builtin" and left > 200:
            continue  # beyond 16 bits
        data = written(kind, format, left, right)
        module = load_tflite(data)
        follow(module, numerics)
        assert not reason(module, numerics), (left, right)
        (want,) = run(interpreter(data, numerics), stored(format))
        np.testing.assert_array_equal(computed(module, stored(format)), want, f"{left} {right}")


@crossed({"kind": ["ADD", "MUL"], "format": POINTS, "numerics": ["litert-xnnpack", "litert-builtin"]})
def test_results_beyond_16_bits(kind: str, format: str, numerics: str) -> None:
    """LiteRT's optimized kernels wrap around; here results saturate as by default, and the ledger says so."""
    data = written(kind, format, *((300.0, 0.37) if kind == "ADD" else (300.0, 1 / SCALE)))
    module = load_tflite(data)
    default = computed(module, stored(format))
    (wrapped,) = run(interpreter(data, numerics), stored(format))
    assert np.abs(wrapped.astype(int) - default).max() == 255
    follow(module, numerics)
    assert "results beyond 16 bits" in reason(module, numerics)
    np.testing.assert_array_equal(computed(module, stored(format)), default)
    follow(module, "litert-reference")
    assert not reason(module, "litert-reference")
    (want,) = run(interpreter(data, "litert-reference"), stored(format))
    np.testing.assert_array_equal(computed(module, stored(format)), want)


@crossed({"kind": ["ADD", "SUB"], "factor": [2.0**19, 2.0**22.9], "numerics": RESOLVERS})
def test_sums_that_stop_litert(kind: str, factor: float, numerics: str, tmp_path: Path) -> None:
    """LiteRT ends the process for some of these scales, so it is not run on the file; an exported file it can run."""
    module = load_tflite(written(kind, "int8", factor, 0.37))
    default = computed(module, stored("int8"))
    follow(module, numerics)
    assert " apart" in reason(module, numerics)
    np.testing.assert_array_equal(computed(module, stored("int8")), default)
    path = tmp_path / "written.tflite"
    qmlir.export(module, path)
    (again,) = run(interpreter(path.read_bytes(), numerics), stored("int8"))
    real = (stored("int8")[1] - 3.0) * 0.37
    near_tie = np.abs(real % 1 - 0.5) < 1e-3  # the file adds floats, which are rounded
    np.testing.assert_array_equal(again[~near_tie], default[~near_tie])
