"""What the oracle computes in the place of onnxruntime's own kernels."""

import numpy as np
import pytest

from tests.fuzz.graphs import MICROSOFT, Graph, Node
from tests.fuzz.oracle import Oracle

DATA = {"MatMulInteger": ("x", "w", "x_point"),
        "QGemm": ("x", "scale", "x_point", "w", "scale", "w_point", "", "scale", "y_point")}  # fmt: skip


@pytest.mark.parametrize("operator", DATA)
def test_signed_weights_beside_unsigned_data_have_exact_sums(operator: str) -> None:
    """On processors without VNNI onnxruntime saturates pairs of products: 255 · 127 · 2 to 32767."""
    x = np.full((1, 6), 255, np.uint8)
    constants = {
        "w": np.full((6, 2), (127, -128), np.int8), "x_point": np.array(7, np.uint8), "w_point": np.array(0, np.int8),
        "scale": np.array(1 / 1024, np.float32), "y_point": np.array(0, np.uint8),
    }  # fmt: skip
    domain = MICROSOFT if operator == "QGemm" else ""
    graph = Graph((Node(operator, DATA[operator], ("y",), domain=domain),), constants, {"x": (x,)}, ("y",), 18)
    exact = (x.astype(np.int64) - 7) @ constants["w"].astype(np.int64)
    if operator == "QGemm":
        exact = np.clip(np.rint(exact / 1024), 0, 255)
    np.testing.assert_array_equal(Oracle(graph).run({"x": x})["y"], exact)
