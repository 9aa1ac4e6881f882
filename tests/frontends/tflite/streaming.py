"""Streaming models: they hear a frame a call, and keep what they heard before in variables."""

from collections.abc import Iterator

import numpy as np

from tests.frontends.tflite.files import RESOURCE, Array, Op, T, constant, model

NAME = {"Container": "", "SharedName": "frames"}
BANDS, FRAMES, FILTERS, UNITS, PLACES, RANK, WORDS = 10, 3, 8, 4, 6, 2, 4


def handle(name: str = "handle") -> T:
    """A tensor that holds the handle of a variable."""
    return T(name, (), RESOURCE)


def keywords(seed: int = 0) -> bytes:
    """A keyword model on bytes: a convolution over the last frames, a layer SVDF, a fully connected one, and a softmax.

    A resource variable, which a CALL_ONCE sets to the input's zero point, keeps the frames, a variable tensor SVDF's
    window.
    """
    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int, dtype: type = np.int8, scale: float) -> T:
        most = np.iinfo(dtype).max // (2 if dtype is np.int16 else 1)
        return constant(name, random.integers(-most, most, shape, endpoint=True), dtype, scale=[scale])

    def bias(name: str, count: int, scale: float) -> T:
        return constant(name, random.integers(-400, 400, count), np.int32, scale=[scale])

    heard = {"scale": [0.0371], "zero": [5]}
    tensors = {
        t.name: t
        for t in (
            T("x", (1, 1, 1, BANDS), np.int8, **heard),
            handle(),
            T("before", (1, FRAMES - 1, 1, BANDS), np.int8, **heard),
            T("frames", (1, FRAMES, 1, BANDS), np.int8, **heard),
            constant("begin", [0, 1, 0, 0], np.int32),
            constant("end", [1, FRAMES, 1, BANDS], np.int32),
            constant("steps", [1, 1, 1, 1], np.int32),
            T("after", (1, FRAMES - 1, 1, BANDS), np.int8, **heard),
            weights("kernel", FILTERS, FRAMES, 1, BANDS, scale=0.0113),
            bias("kernel_bias", FILTERS, 0.0371 * 0.0113),
            T("features", (1, 1, 1, FILTERS), np.int8, scale=[0.0523], zero=[-128]),
            constant("row", [1, FILTERS], np.int32),
            T("flat", (1, FILTERS), np.int8, scale=[0.0523], zero=[-128]),
            weights("wf", UNITS * RANK, FILTERS, scale=0.0071),
            weights("wt", UNITS * RANK, PLACES, dtype=np.int16, scale=1 / 32768),
            bias("b", UNITS, 0.0013 / 32768),
            T("window", (1, UNITS * RANK * PLACES), np.int16, scale=[0.0013], variable=True),
            T("mixed", (1, UNITS), np.int8, scale=[0.0417], zero=[-128]),
            weights("w", WORDS, UNITS, scale=0.0091),
            bias("wb", WORDS, 0.0417 * 0.0091),
            T("logits", (1, WORDS), np.int8, scale=[0.0639], zero=[3]),
            T("y", (1, WORDS), np.int8, scale=[1 / 256], zero=[-128]),
        )
    }
    at = {name: i for i, name in enumerate(tensors)}
    convolution = {"Padding": 1, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    joined = {"Axis": 1, "FusedActivationFunction": 0}
    operators = [
        ("CALL_ONCE", [], [], "CallOnceOptions", {"InitSubgraphIndex": 1}),
        ("VAR_HANDLE", [], ["handle"], "VarHandleOptions", NAME),
        ("READ_VARIABLE", ["handle"], ["before"], "ReadVariableOptions", {}),
        ("CONCATENATION", ["before", "x"], ["frames"], "ConcatenationOptions", joined),
        ("STRIDED_SLICE", ["frames", "begin", "end", "steps"], ["after"], "StridedSliceOptions", {}),
        ("ASSIGN_VARIABLE", ["handle", "after"], [], "AssignVariableOptions", {}),
        ("CONV_2D", ["frames", "kernel", "kernel_bias"], ["features"], "Conv2DOptions",
         {**convolution, "FusedActivationFunction": 1}),
        ("RESHAPE", ["features", "row"], ["flat"], "ReshapeOptions", {}),
        ("SVDF", ["flat", "wf", "wt", "b", "window"], ["mixed"], "SVDFOptions",
         {"Rank": RANK, "FusedActivationFunction": 1}),
        ("FULLY_CONNECTED", ["mixed", "w", "wb"], ["logits"], "FullyConnectedOptions", {}),
        ("SOFTMAX", ["logits"], ["y"], "SoftmaxOptions", {"Beta": 1.0}),
    ]  # fmt: skip
    silence = np.full((1, FRAMES - 1, 1, BANDS), 5)
    initial = (
        [handle(), constant("silence", silence, np.int8, **heard)],
        [Op("VAR_HANDLE", [], [0], "VarHandleOptions", NAME), Op("ASSIGN_VARIABLE", [0, 1], [])],
        [],
        [],
    )
    ops = [Op(kind, [at[i] for i in ins], [at[o] for o in outs], *rest) for kind, ins, outs, *rest in operators]
    return model([*tensors.values()], ops, [at["x"]], [at["y"]], others=[initial])


def frames(count: int, seed: int = 1) -> Iterator[Array]:
    """Random frames for `keywords`."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield random.integers(-128, 127, (1, 1, 1, BANDS), endpoint=True).astype(np.int8)
