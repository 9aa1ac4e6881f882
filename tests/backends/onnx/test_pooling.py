"""Pools whose last window reaches beyond the image by the kernel or more, as `ceil_mode` lets dilated ones do."""

from pathlib import Path
from typing import Any

import numpy as np

import qmlir
from qmlir.frontends.onnx import load_onnx
from qmlir.policies.runtimes import follow
from tests.backends.onnx.runtime import exported, run
from tests.conftest import crossed
from tests.frontends.onnx.agreement import model, node, onnxruntime_run

POOLS: dict[str, dict[str, Any]] = {
    "rows": {"kernel_shape": [2, 2], "strides": [3, 1], "dilations": [2, 1]},
    "columns": {"kernel_shape": [1, 2], "strides": [1, 3], "dilations": [1, 2]},
    "padded": {"kernel_shape": [2, 2], "strides": [3, 4], "dilations": [3, 3], "pads": [1, 1, 1, 0]},
}


@crossed(
    {
        "pool": POOLS,
        "operator": ["MaxPool", "AveragePool"],
        "form": ["float", "onnx-qdq", "onnx-qoperator", "onnx-integer"],
    }
)
def test_onnxruntime_runs_it(pool: str, operator: str, form: str, tmp_path: Path) -> None:
    """It takes no padding as large as the kernel."""
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 7)).astype(np.float32)
    proto = model(node(operator, "x", ceil_mode=1, **POOLS[pool]), {"x": x.shape})
    module, numerics = (
        qmlir.Pipeline("simplify")(load_onnx(proto)),
        "onnxruntime" if form == "onnx-qoperator" else "default",
    )
    if form != "float":
        follow(module, numerics)
        module = qmlir.quantize(module, qmlir.profile(module, [x]), precision="int8")
    path = tmp_path / "pool.onnx"
    # Signed bytes stay so: qmlir rounds a mean in the middle of two integers by the integers that are stored.
    exported(module, path, format="onnx-qdq" if form == "float" else form, activations="kept")
    ours, (theirs,) = qmlir.reference(module)(x), run(path, [x])
    (exact,) = onnxruntime_run(proto, {"x": x})
    step = 0.0 if form == "float" else float(np.ptp(x)) / 255
    np.testing.assert_allclose(theirs, ours, rtol=1e-6, atol=0 if operator == "MaxPool" else 1.01 * step)
    np.testing.assert_allclose(theirs, exact, rtol=1e-6, atol=2 * step)
    np.testing.assert_array_equal(qmlir.reference(qmlir.load(path, numerics=numerics))(x), ours)
