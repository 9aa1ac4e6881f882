"""Times in onnxruntime are measured and printed; what they are is for people to judge."""

from pathlib import Path

from tests.backends.onnx.runtime import SATURATING
from tests.benchmarks.in_onnxruntime import RECIPES, exports_of, ratios, squeezenet


@SATURATING
def test_a_small_squeezenet(tmp_path: Path) -> None:
    model = squeezenet(tmp_path / "squeezenet.onnx", size=40, classes=10)
    exports = exports_of(model, tmp_path)
    assert set(exports) == set(RECIPES)
    found = ratios(model, exports, 2)
    assert all(ratio > 0 for ratio in found.values())
    print({name: round(ratio, 2) for name, ratio in found.items()})  # noqa: T201
