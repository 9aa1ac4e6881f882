"""Clamps whose bounds lie halfway between two stored integers, under each of LiteRT's numerics: its kernels' bits."""

from pathlib import Path

import numpy as np

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.conftest import crossed
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

ACT = "FusedActivationFunction"
CONVOLUTION = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
CLAMPED: dict[str, Op] = {
    "RELU6": Op("RELU6", [0], [1]),
    "RELU_N1_TO_1": Op("RELU_N1_TO_1", [0], [1]),
    "RELU_0_TO_1": Op("RELU_0_TO_1", [0], [1]),
    "AVERAGE_POOL_2D": Op(
        "AVERAGE_POOL_2D", [0], [1], "Pool2DOptions",
        {"StrideH": 1, "StrideW": 1, "FilterHeight": 1, "FilterWidth": 1, ACT: 2},
    ),
    "ADD": Op("ADD", [0, 2], [1], "AddOptions", {ACT: 2}),
    "SUB": Op("SUB", [0, 2], [1], "SubOptions", {ACT: 3}),
    "MUL": Op("MUL", [0, 2], [1], "MulOptions", {ACT: 2}),
    "CONV_2D": Op("CONV_2D", [0, 3, 4], [1], "Conv2DOptions", {**CONVOLUTION, ACT: 2}),
}  # fmt: skip
LACKING = {("RELU_N1_TO_1", "int16"), ("RELU_0_TO_1", "int16")}
"""What LiteRT has no kernel for."""

SCALES = (0.4, 2.4, 1 / 25.5, 2.0, 12.0)
"""Scales that a bound of 1 or 6 is half a step too long for, in float32 at least."""

SHAPE = (1, 16, 16, 8)


def file(kind: str, format: str, scale: float, point: int) -> bytes:
    """A file of one operator whose data and result have the same parameters."""
    op, own = CLAMPED[kind], {"scale": [scale], "zero": [point]}
    unsigned = format == "uint8"
    weights = np.random.default_rng(0).integers(28, 228, (8, 1, 1, 8)) - (0 if unsigned else 128)
    wide = np.int64 if format == "int16" else np.int32
    others = {
        2: constant("c", np.full(SHAPE, point + 20, format), scale=[0.05], zero=[point]),
        3: constant("w", weights.astype("uint8" if unsigned else "int8"), scale=[0.01], zero=[128 * unsigned]),
        4: constant("b", np.zeros(8, wide), scale=[float(np.float32(scale) * np.float32(0.01))], zero=[0]),
    }
    read = list(op.inputs[1:])
    tensors = [T("x", SHAPE, format, **own), T("y", SHAPE, format, **own), *(others[i] for i in read)]
    placed = Op(op.kind, [0, *range(2, 2 + len(read))], [1], op.options_kind, op.options)
    return model(tensors, [placed], [0], [1])


@crossed(
    {
        "kind, format": [(k, f) for k in CLAMPED for f in ("int8", "uint8", "int16") if (k, f) not in LACKING],
        "numerics": RESOLVERS,
    }
)
def test_bounds_round_as_litert_s(kind: str, format: str, numerics: str, tmp_path: Path) -> None:
    """Also in the file that is written of it, which LiteRT's reference kernels run."""
    limits, random = np.iinfo(format), np.random.default_rng(0)
    for scale in SCALES:
        point = 0 if format == "int16" else int(random.integers(limits.min + 60, limits.max - 60))
        x = random.permutation(np.tile(np.linspace(limits.min, limits.max, 256).astype(format), 8)).reshape(SHAPE)
        data = file(kind, format, scale, point)
        module = load_tflite(data)
        follow(module, numerics)
        (want,) = run(interpreter(data, numerics), [x])
        np.testing.assert_array_equal(qmlir.reference(module).run(x)[0], want, f"{scale} {point}")
        if numerics == "litert-reference" and scale == SCALES[0]:
            qmlir.export(module, tmp_path / "again.tflite", format="tflite")
            (again,) = run(interpreter(str(tmp_path / "again.tflite"), numerics), [x])
            np.testing.assert_array_equal(again, want)
