"""One small model for each operator and way of storing numbers that LiteRT runs: float32, int8, uint8, 16x8.

Draw 0 of a case has the scales and zero points below; any other number draws them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.conftest import THOROUGH
from tests.frontends.tflite.files import CODES, Op, T, constant, model

FORMATS = ("float32", "int8", "uint8", "int16")
PARAMETERS = {"int8": (0.05, 3), "uint8": (0.05, 131), "int16": (0.0002, 0)}
OUTPUTS = {"int8": (0.06, -5), "uint8": (0.06, 120), "int16": (0.0003, 0)}
PROBABILITIES = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
SUMS = {"int8": (0.25, -5), "uint8": (0.25, 120), "int16": (0.0009, 0)}
PRODUCTS = {"int8": (0.4, -5), "int16": (0.004, 0)}
UNIT = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)}
LOG_PROBABILITIES = {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)}

FORCED = (PROBABILITIES, UNIT, LOG_PROBABILITIES)
"""Parameters that TFLite's kernels take for granted."""

Parameters = dict[str, tuple[float, int]]
Scaling = tuple[float, int]
"""Scale and zero point."""


@dataclass(frozen=True)
class Case:
    """A model of one operator; `formats` are those that LiteRT's kernel takes.

    shapes    of the inputs that are computed
    outputs   shapes of the outputs
    extra     constants behind (or, with `first`, before) the computed inputs
    same      the output has the input's parameters
    reference whether the oracle is LiteRT's reference kernel; else what it runs by default
    version   of the operator
    source    the element type of the inputs where the format does not say it
    results   element types of several outputs; None is the format's
    shape     a constant behind everything else
    steps     how far an 8-bit result may lie from LiteRT's reference kernel, whose rounding is another; the test of
              LiteRT's numerics (tests/conformance) holds all results to its kernels
    positive  inputs are above 0
    """

    kind: str
    shapes: Sequence[Sequence[int]]
    outputs: Sequence[Sequence[int]]
    options: tuple[str, dict[str, Any]] = ("", {})
    extra: Sequence[T] = ()
    formats: Sequence[str] = FORMATS
    first: bool = False
    same: bool = False
    parameters: Parameters | None = None
    result: Any = None
    steps: int = 1
    positive: bool = False
    label: str = ""
    reference: bool = True
    version: int = 1
    source: Any = None
    results: Sequence[Any] = ()
    shape: T | None = None

    @property
    def name(self) -> str:
        return self.kind + (f" {self.label}" if self.label else "")

    def build(self, format: str, draw: int = 0) -> bytes:
        """The file in a format."""
        return model(*self.parts(format, draw))

    def scaling(self, format: str, draw: int) -> tuple[list[Scaling | None], Scaling | None]:
        """Scale and zero point of each input and of the outputs; None where there are none."""
        own = self.source or format
        given, made = PARAMETERS.get(own), (self.parameters or OUTPUTS).get(format)
        if not draw:
            return [given] * len(self.shapes), given if self.same else made
        random = np.random.default_rng(draw)
        inputs = [self._drawn(random, own, given, spread=1.0) for _ in self.shapes]
        if self.same:
            return [inputs[0]] * len(inputs), inputs[0]
        forced = any(self.parameters is p for p in FORCED)
        return inputs, made if forced else self._drawn(random, format, made, spread=1.5)

    def _drawn(
        self, random: np.random.Generator, format: str, around: Scaling | None, spread: float
    ) -> Scaling | None:  # fmt: skip
        """A scale at most `spread` octaves from one, and any zero point that leaves numbers on both sides."""
        if around is None:
            return None
        scale, zero = around
        limits = np.iinfo(format)
        if format != "int16":
            room = 8 if not self.positive else 100
            zero = int(random.integers(limits.min + 8, limits.max - room))
        return float(np.float32(scale * 2 ** random.uniform(-spread, spread))), zero

    def parts(self, format: str, draw: int = 0) -> tuple[list[T], list[Op], list[int], list[int]]:
        """Tensors, operators, inputs and outputs of the file in a format."""

        def tensor(name: str, shape: Sequence[int], dtype: str, scaling: Scaling | None) -> T:
            if scaling is None:
                return T(name, shape, np.dtype(dtype))
            return T(name, shape, np.dtype(dtype), None, [scaling[0]], [scaling[1]])

        own, out = self.scaling(format, draw)
        inputs = [
            tensor(f"x{i}", s, self.source or format, p) for i, (s, p) in enumerate(zip(self.shapes, own, strict=True))
        ]
        order = [*self.extra, *inputs] if self.first else [*inputs, *self.extra]
        results = [tensor(f"y{i}", s, format, out) for i, s in enumerate(self.outputs)]
        if self.result is not None:
            results = [T(f"y{i}", s, self.result) for i, s in enumerate(self.outputs)]
        for i, dtype in enumerate(self.results):
            results[i] = results[i] if dtype is None else T(f"y{i}", self.outputs[i], dtype)
        order += [] if self.shape is None else [self.shape]
        n = len(order)
        op = Op(self.kind, range(n), range(n, n + len(results)), *self.options, self.version)
        fed = [i for i, t in enumerate(order) if t.data is None]
        return [*order, *results], [op], fed, list(op.outputs)

    def data(self, format: str, random: np.random.Generator, draw: int = 0) -> list[np.ndarray]:
        """Inputs."""
        arrays = list[np.ndarray]()
        dtype = np.dtype(self.source or format)
        for shape, scaling in zip(self.shapes, self.scaling(format, draw)[0], strict=True):
            if dtype.kind == "f":
                x = random.standard_normal(shape).astype(dtype)
                arrays.append(np.abs(x) + dtype.type(0.5) if self.positive else x)
            elif scaling is None:  # plain numbers
                low, high = (0, 2) if dtype.kind == "b" else (1 if self.positive else -9, 10)
                arrays.append(random.integers(low, high, shape).astype(dtype))
            else:
                limits = np.iinfo(dtype)
                low = scaling[1] + 10 if self.positive else limits.min
                arrays.append(random.integers(low, limits.max + 1, shape).astype(dtype))
        return arrays


def i32(name: str, values: Any) -> T:
    """A constant of int32."""
    return constant(name, values, np.int32)


IMAGE, ROWS = (1, 6, 5, 4), (2, 7)
ACT = "FusedActivationFunction"
EIGHT = ("float32", "int8", "uint8")
SIGNED = ("float32", "int8", "int16")
FLOAT = ("float32",)


def _pairs() -> Iterator[Case]:
    for kind, formats in (("ADD", FORMATS), ("SUB", FORMATS), ("MUL", FORMATS), ("DIV", FORMATS)):
        options = f"{kind.capitalize()}Options"
        positive = kind == "DIV"
        steps = 2 if positive else 1
        yield Case(kind, [IMAGE, IMAGE], [IMAGE], (options, {ACT: 0}), formats=formats, positive=positive, steps=steps)
        yield Case(kind, [IMAGE, (4,)], [IMAGE], (options, {ACT: 3}), formats=formats, positive=positive, steps=steps,
                   label="broadcast, relu6")  # fmt: skip
    for kind in ("MAXIMUM", "MINIMUM"):
        yield Case(kind, [IMAGE, (4,)], [IMAGE], ("MaximumMinimumOptions", {}), same=True, steps=0)
    yield Case("SQUARED_DIFFERENCE", [IMAGE, IMAGE], [IMAGE], formats=("float32", "int8"))
    yield Case("POW", [ROWS, ROWS], [ROWS], ("PowOptions", {}), formats=FLOAT, positive=True)
    yield Case("FLOOR_DIV", [ROWS, ROWS], [ROWS], formats=FLOAT, positive=True)
    yield Case("FLOOR_MOD", [ROWS, ROWS], [ROWS], formats=FLOAT, positive=True)
    yield Case("PRELU", [IMAGE, (1, 1, 4)], [IMAGE], formats=EIGHT)
    slopes = constant("slopes", [30, -128, 127, 1], np.int8, scale=[0.01], zero=[0])
    yield Case("PRELU", [IMAGE], [IMAGE], extra=[slopes], formats=("int16",), label="by bytes")
    for kind in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        yield Case(kind, [ROWS, ROWS], [ROWS], result=np.bool_, steps=0)
    for kind in ("EQUAL", "NOT_EQUAL"):  # of 30,000 pairs some are less than a step of 1/256 apart
        yield Case(kind, [(1, 200), (150, 1)], [(150, 200)], formats=("int16",), result=np.bool_, label="of all pairs")


def _functions() -> Iterator[Case]:
    for kind in ("RELU", "RELU6"):
        yield Case(kind, [IMAGE], [IMAGE])
    for kind in ("RELU_N1_TO_1", "RELU_0_TO_1"):
        yield Case(kind, [IMAGE], [IMAGE], formats=EIGHT)
    yield Case("LOGISTIC", [ROWS], [ROWS], parameters=PROBABILITIES, steps=2)
    yield Case("TANH", [ROWS], [ROWS], parameters=UNIT, steps=3)
    yield Case("HARD_SWISH", [IMAGE], [IMAGE], formats=EIGHT, steps=2)
    yield Case("LEAKY_RELU", [IMAGE], [IMAGE], ("LeakyReluOptions", {"Alpha": 0.2}))
    yield Case("ELU", [ROWS], [ROWS], formats=("float32", "int8"), reference=False)  # there is no reference kernel
    yield Case("GELU", [ROWS], [ROWS], ("GeluOptions", {"Approximate": False}))
    yield Case("GELU", [ROWS], [ROWS], ("GeluOptions", {"Approximate": True}), label="tanh")
    yield Case("EXP", [ROWS], [ROWS], formats=SIGNED)
    yield Case("LOG", [ROWS], [ROWS], formats=SIGNED, positive=True)
    yield Case("RSQRT", [ROWS], [ROWS], formats=SIGNED, positive=True, steps=2)
    yield Case("SQRT", [ROWS], [ROWS], formats=SIGNED, positive=True)
    yield Case("ABS", [ROWS], [ROWS], formats=SIGNED)
    for kind in ("SIN", "COS", "NEG", "FLOOR", "SQUARE"):
        yield Case(kind, [ROWS], [ROWS], formats=FLOAT)
    yield Case("SOFTMAX", [ROWS], [ROWS], ("SoftmaxOptions", {"Beta": 1.0}), parameters=PROBABILITIES, steps=2)
    yield Case("SOFTMAX", [ROWS], [ROWS], ("SoftmaxOptions", {"Beta": 0.5}), parameters=PROBABILITIES, steps=2,
               label="beta")  # fmt: skip
    yield Case("LOG_SOFTMAX", [ROWS], [ROWS], parameters=LOG_PROBABILITIES, formats=EIGHT, steps=2)
    yield Case("L2_NORMALIZATION", [ROWS], [ROWS], ("L2NormOptions", {ACT: 0}), parameters=UNIT, formats=EIGHT, steps=2)
    yield Case("LOCAL_RESPONSE_NORMALIZATION", [IMAGE], [IMAGE],
               ("LocalResponseNormalizationOptions", {"Radius": 1, "Bias": 1.5, "Alpha": 0.3, "Beta": 0.7}),
               formats=FLOAT, reference=False)  # fmt: skip  # the reference kernel leaves out the last neighbour


def _windows() -> Iterator[Case]:
    pool = {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 2}
    yield Case("AVERAGE_POOL_2D", [IMAGE], [(1, 3, 3, 4)], ("Pool2DOptions", {**pool, ACT: 0}), same=True)
    yield Case("AVERAGE_POOL_2D", [IMAGE], [(1, 3, 3, 4)], ("Pool2DOptions", {**pool, ACT: 1}), same=True,
               label="relu")  # fmt: skip
    yield Case("MAX_POOL_2D", [IMAGE], [(1, 2, 2, 4)], ("Pool2DOptions", {**pool, "Padding": 1, ACT: 3}), same=True,
               steps=0)  # fmt: skip
    for align, half in ((False, False), (True, False), (False, True)):
        flags = {"AlignCorners": align, "HalfPixelCenters": half}
        yield Case("RESIZE_BILINEAR", [IMAGE], [(1, 9, 7, 4)], ("ResizeBilinearOptions", flags), [i32("size", [9, 7])],
                   same=True, formats=EIGHT, label=f"{align} {half}")  # fmt: skip  # 16 bits: LiteRT's places have 10
        yield Case("RESIZE_NEAREST_NEIGHBOR", [IMAGE], [(1, 9, 7, 4)], ("ResizeNearestNeighborOptions", flags),
                   [i32("size", [9, 7])], same=True, steps=0, label=f"{align} {half}")  # fmt: skip


def _reductions() -> Iterator[Case]:
    keep = ("ReducerOptions", {"KeepDims": True})
    drop = ("ReducerOptions", {"KeepDims": False})
    yield Case("MEAN", [IMAGE], [(1, 1, 1, 4)], keep, [i32("axes", [1, 2])])
    yield Case("MEAN", [IMAGE], [(1, 6, 5)], drop, [i32("axes", [-1])], label="last")
    yield Case(
        "SUM", [IMAGE], [(1, 6, 5)], drop, [i32("axes", [3])], parameters=SUMS, reference=False
    )  # LiteRT's reference kernel scales 8- and 16-bit signed sums by a wrong factor
    # A ratio of scales just below 75/92: sums that are ties in float32 only.
    yield Case("SUM", [IMAGE], [(1, 6, 5)], drop, [i32("axes", [3])], formats=("uint8",),
               parameters={"uint8": (0.06133334, 120)}, reference=False, label="of ties")  # fmt: skip
    yield Case("REDUCE_PROD", [ROWS], [(2,)], drop, [i32("axes", [1])], formats=FLOAT)
    yield Case("REDUCE_MAX", [IMAGE], [(1, 1, 5, 4)], keep, [i32("axes", [1])], same=True, steps=0)
    yield Case("REDUCE_MIN", [IMAGE], [(1, 5, 4)], drop, [i32("axes", [1])], same=True, steps=0)
    yield Case("ARG_MAX", [ROWS], [(2,)], ("ArgMaxOptions", {"OutputType": 2}), [i32("axis", 1)], result=np.int32,
               formats=EIGHT, steps=0)  # fmt: skip
    yield Case("ARG_MIN", [ROWS], [(7,)], ("ArgMinOptions", {"OutputType": 4}), [i32("axis", 0)], result=np.int64,
               formats=EIGHT, steps=0)  # fmt: skip
    yield Case("CUMSUM", [ROWS], [ROWS], ("CumsumOptions", {"Exclusive": True, "Reverse": True}), [i32("axis", 1)],
               formats=FLOAT)  # fmt: skip


def _movement() -> Iterator[Case]:
    def moving(kind: str, outputs: Any, *rest: Any, **more: Any) -> Case:
        return Case(kind, [IMAGE], outputs, *rest, **{"same": True, "steps": 0, **more})

    yield moving("RESHAPE", [(1, 30, 4)], ("ReshapeOptions", {"NewShape": [1, -1, 4]}), [i32("shape", [1, -1, 4])])
    yield moving("TRANSPOSE", [(1, 4, 6, 5)], ("TransposeOptions", {}), [i32("perm", [0, 3, 1, 2])])
    yield moving("SQUEEZE", [(6, 5, 4)], ("SqueezeOptions", {"SqueezeDims": [0]}))
    yield moving("EXPAND_DIMS", [(1, 6, 1, 5, 4)], ("ExpandDimsOptions", {}), [i32("axis", 2)])
    pads = [[0, 0], [1, 2], [0, 3], [0, 0]]
    yield moving("PAD", [(1, 9, 8, 4)], ("PadOptions", {}), [i32("paddings", pads)])
    yield moving("MIRROR_PAD", [(1, 9, 8, 4)], ("MirrorPadOptions", {"Mode": 0}), [i32("paddings", pads)])
    yield moving("MIRROR_PAD", [(1, 9, 8, 4)], ("MirrorPadOptions", {"Mode": 1}), [i32("paddings", pads)],
                 label="symmetric")  # fmt: skip
    yield moving("SLICE", [(1, 2, 4, 4)], ("SliceOptions", {}), [i32("b", [0, 1, 1, 0]), i32("s", [1, 2, -1, 4])])
    yield moving("STRIDED_SLICE", [(6, 2, 4)], ("StridedSliceOptions", {"ShrinkAxisMask": 1, "EndMask": 2}),
                 [i32("b", [0, 0, -1, 0]), i32("e", [1, 0, 0, 4]), i32("s", [1, 1, -2, 1])])  # fmt: skip
    yield moving("SPLIT", [(1, 3, 5, 4)] * 2, ("SplitOptions", {"NumSplits": 2}), [i32("axis", 1)], first=True)
    yield moving("SPLIT_V", [(1, 2, 5, 4), (1, 4, 5, 4)], ("SplitVOptions", {"NumSplits": 2}),
                 [i32("sizes", [2, -1]), i32("axis", 1)])  # fmt: skip
    yield moving("UNPACK", [(1, 6, 4)] * 5, ("UnpackOptions", {"Num": 5, "Axis": 2}))
    yield Case("PACK", [ROWS, ROWS], [(2, 2, 7)], ("PackOptions", {"ValuesCount": 2, "Axis": 1}), same=True, steps=0)
    yield Case("CONCATENATION", [ROWS, ROWS], [(4, 7)], ("ConcatenationOptions", {"Axis": 0}), same=True, steps=0)
    yield moving("GATHER", [(1, 6, 3, 4)], ("GatherOptions", {"Axis": 2}), [i32("indices", [4, 0, 4])])
    yield moving("GATHER_ND", [(2, 5, 4)], ("GatherNdOptions", {}), [i32("indices", [[0, 3], [0, 5]])])
    yield moving("TILE", [(1, 12, 5, 12)], ("TileOptions", {}), [i32("multiples", [1, 2, 1, 3])])
    yield moving("BROADCAST_TO", [(3, 6, 5, 4)], ("BroadcastToOptions", {}), [i32("shape", [3, 6, 5, 4])],
                 version=2)  # fmt: skip
    yield moving("REVERSE_V2", [IMAGE], ("ReverseV2Options", {}), [i32("axes", [1])])
    yield Case("SPACE_TO_DEPTH", [(1, 6, 4, 2)], [(1, 3, 2, 8)], ("SpaceToDepthOptions", {"BlockSize": 2}), same=True,
               steps=0, formats=EIGHT)  # fmt: skip
    yield Case("DEPTH_TO_SPACE", [(1, 3, 2, 8)], [(1, 6, 4, 2)], ("DepthToSpaceOptions", {"BlockSize": 2}), same=True,
               steps=0, formats=EIGHT)  # fmt: skip
    yield Case(
        "SPACE_TO_BATCH_ND",
        [IMAGE],
        [(6, 3, 2, 4)],
        ("SpaceToBatchNDOptions", {}),
        [i32("blocks", [2, 3]), i32("paddings", [[0, 0], [1, 0]])],
        same=True,
        steps=0,
    )
    yield Case(
        "BATCH_TO_SPACE_ND",
        [(6, 3, 2, 4)],
        [(1, 6, 5, 4)],
        ("BatchToSpaceNDOptions", {}),
        [i32("blocks", [2, 3]), i32("crops", [[0, 0], [1, 0]])],
        same=True,
        steps=0,
    )


def _others() -> Iterator[Case]:
    square, chosen = ("BatchMatMulOptions", {"AdjX": False, "AdjY": True}), np.arange(14).reshape(2, 7) % 3 == 0
    yield Case("BATCH_MATMUL", [(3, 2, 7), (3, 5, 7)], [(3, 2, 5)], square, formats=SIGNED, parameters=PRODUCTS)
    yield Case("ADD_N", [ROWS, ROWS, ROWS], [ROWS], formats=FLOAT)
    yield Case("PADV2", [ROWS], [(3, 9)], ("PadV2Options", {}), [i32("paddings", [[1, 0], [0, 2]]),
                                                                 constant("value", np.array(1.5, np.float32))],
               formats=FLOAT)  # fmt: skip
    for format in FORMATS:
        between = constant("value", np.array(1.5 if format == "float32" else 100, format))
        yield Case("DILATE", [(1, 2, 3, 4)], [(1, 3, 7, 4)], extra=[i32("dilations", [5, 2, 3, 1]), between],
                   formats=(format,), same=True, steps=0)  # fmt: skip
    yield Case("SELECT_V2", [ROWS, ROWS], [ROWS], ("SelectV2Options", {}), [constant("if", chosen)], first=True,
               same=True, steps=0, reference=False)  # fmt: skip
    yield Case("SELECT", [ROWS, ROWS], [ROWS], ("SelectOptions", {}), [constant("if", np.array([True, False]))],
               first=True, same=True, steps=0)  # fmt: skip
    for kind in ("CEIL", "ROUND", "SIGN"):
        yield Case(kind, [ROWS], [ROWS], formats=FLOAT, reference=False)


INTEGERS = ("int32",)


def _integers() -> Iterator[Case]:
    for kind in ("ADD", "SUB", "MUL"):
        yield Case(kind, [ROWS, ROWS], [ROWS], (f"{kind.capitalize()}Options", {ACT: 0}), formats=INTEGERS)
    for kind in ("FLOOR_DIV", "FLOOR_MOD", "RIGHT_SHIFT"):
        yield Case(kind, [ROWS, ROWS], [ROWS], formats=INTEGERS, positive=True)
    for kind in ("BITWISE_XOR", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
        yield Case(kind, [ROWS, ROWS], [ROWS], formats=INTEGERS)
    for kind in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        yield Case(kind, [ROWS, ROWS], [ROWS], formats=INTEGERS, result=np.bool_)
    for kind in ("LOGICAL_AND", "LOGICAL_OR"):
        yield Case(kind, [ROWS, ROWS], [ROWS], formats=("bool",))
    yield Case("LOGICAL_NOT", [ROWS], [ROWS], formats=("bool",))
    for kind in ("NEG", "ABS"):
        yield Case(kind, [ROWS], [ROWS], formats=INTEGERS)
    drop = ("ReducerOptions", {"KeepDims": False})
    for kind in ("SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
        yield Case(kind, [ROWS], [(2,)], drop, [i32("axes", [1])], formats=INTEGERS)
    for kind in ("REDUCE_ANY", "REDUCE_ALL"):
        yield Case(kind, [ROWS], [(2,)], drop, [i32("axes", [1])], formats=("bool",))


def _choices() -> Iterator[Case]:
    one, nothing = constant("on", np.array(2.5, np.float32)), constant("off", np.array(-1.0, np.float32))
    for label, axis, shape in (("", -1, (2, 7, 6)), ("first", 0, (6, 2, 7))):
        yield Case("ONE_HOT", [ROWS], [shape], ("OneHotOptions", {"Axis": axis}), [i32("depth", 6), one, nothing],
                   formats=FLOAT, source="int32", label=label)  # fmt: skip
    yield Case("TOPK_V2", [ROWS], [(2, 3), (2, 3)], ("TopKV2Options", {}), [i32("k", [3])], same=True,
               results=(None, np.int32))  # fmt: skip
    limits = (i32("most", 5), constant("overlap", 0.4, np.float32), constant("least", -0.5, np.float32))
    yield Case("NON_MAX_SUPPRESSION_V4", [(9, 4), (9,)], [(5,), ()], ("", {}), limits, formats=FLOAT,
               results=(np.int32, np.int32))  # fmt: skip
    yield Case("NON_MAX_SUPPRESSION_V5", [(9, 4), (9,)], [(5,), (5,), ()], ("", {}),
               (*limits, constant("sigma", 0.0, np.float32)), formats=FLOAT,
               results=(np.int32, None, np.int32))  # fmt: skip
    yield Case("BUCKETIZE", [ROWS], [ROWS], ("BucketizeOptions", {"Boundaries": [-0.5, 0.25, 1.0]}), formats=FLOAT,
               result=np.int32)  # fmt: skip
    yield Case("MATRIX_DIAG", [ROWS], [(2, 7, 7)], ("MatrixDiagOptions", {}), formats=FLOAT)
    for label, shape, diagonal in (("", (2, 3, 5), (2, 3)), ("tall", (2, 5, 3), (2, 3))):
        yield Case("MATRIX_SET_DIAG", [shape, diagonal], [shape], ("MatrixSetDiagOptions", {}), formats=FLOAT,
                   label=label)  # fmt: skip
    yield Case("ATAN2", [ROWS, ROWS], [ROWS], ("ATan2Options", {}), formats=FLOAT)
    yield Case("ZEROS_LIKE", [ROWS], [ROWS], ("ZerosLikeOptions", {}), formats=("float32", "int32"))
    yield Case("FILL", [()], [(2, 3)], ("FillOptions", {}), [i32("shape", [2, 3])], first=True,
               formats=("float32", "int8", "int16", "int32"), same=True)  # fmt: skip
    yield Case("FAKE_QUANT", [ROWS], [ROWS], ("FakeQuantOptions", {"Min": -1.5, "Max": 2.0, "NumBits": 8}),
               formats=FLOAT)  # fmt: skip
    yield Case("FAKE_QUANT", [ROWS], [ROWS],
               ("FakeQuantOptions", {"Min": -1.5, "Max": 2.0, "NumBits": 16}), formats=FLOAT,
               label="16 bits")  # fmt: skip
    yield Case("L2_POOL_2D", [IMAGE], [(1, 3, 3, 4)],
               ("Pool2DOptions", {"StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 2, ACT: 0}),
               formats=FLOAT)  # fmt: skip
    yield Case("BITCAST", [ROWS], [ROWS], ("BitcastOptions", {}), formats=FLOAT, result=np.int32)
    yield Case("EMBEDDING_LOOKUP", [(6, 4)], [(3, 4)], extra=[i32("ids", [5, 0, 5])], first=True, same=True)
    for label, axis, batch, indices, shape in (
        ("batches", 2, 1, [[4, 0, 4]], (1, 6, 3, 4)),
        ("batches, next axis", 1, 1, [[5, 0, 1]], (1, 3, 5, 4)),
    ):
        yield Case("GATHER", [IMAGE], [shape], ("GatherOptions", {"Axis": axis, "BatchDims": batch}),
                   [i32("indices", indices)], same=True, formats=("float32", "int8", "int16"), label=label)  # fmt: skip
    yield Case("REVERSE_SEQUENCE", [(3, 5, 2)], [(3, 5, 2)], ("ReverseSequenceOptions", {"SeqDim": 1, "BatchDim": 0}),
               [i32("lengths", [5, 0, 3])], formats=("float32", "uint8", "int16"), same=True)  # fmt: skip


def _scatters() -> Iterator[Case]:
    yield Case("SCATTER_ND", [(4, 3)], [(5, 3)], ("ScatterNdOptions", {}),
               [i32("indices", [[0], [2], [2], [4]])], first=True, shape=i32("shape", [5, 3]),
               formats=("float32", "int32"))  # fmt: skip
    yield Case("DYNAMIC_UPDATE_SLICE", [(4, 5), (2, 3)], [(4, 5)], ("DynamicUpdateSliceOptions", {}),
               [i32("start", [3, -1])], formats=("float32", "int8", "int32"), same=True)  # fmt: skip
    yield Case("SEGMENT_SUM", [(4, 3)], [(3, 3)], ("SegmentSumOptions", {}), [i32("ids", [0, 0, 1, 2])],
               formats=("float32", "int32"), reference=False)  # fmt: skip  # there is no reference kernel
    for kind in ("SUM", "PROD", "MAX", "MIN"):
        yield Case(f"UNSORTED_SEGMENT_{kind}", [(5, 3)], [(4, 3)], (f"UnsortedSegment{kind.capitalize()}Options", {}),
                   [i32("ids", [3, 0, -1, 3, 1]), i32("count", 4)], formats=("float32", "int32"))  # fmt: skip
    yield Case("SPARSE_TO_DENSE", [(3,), ()], [(4, 5)], ("SparseToDenseOptions", {}),
               [i32("indices", [[0, 1], [2, 4], [3, 0]]), i32("shape", [4, 5])], first=True,
               formats=("float32", "int32"))  # fmt: skip


def _volumes() -> Iterator[Case]:
    random = np.random.default_rng(3)

    def weights(*shape: int) -> list[T]:
        outputs = shape[4] if shape[0] == 2 else shape[3]
        return [constant("w", random.standard_normal(shape), np.float32),
                constant("b", random.standard_normal(outputs), np.float32)]  # fmt: skip

    volume, steps = (1, 5, 6, 4, 3), {"StrideD": 2, "StrideH": 1, "StrideW": 2}
    dilated = {"DilationDFactor": 2, "DilationHFactor": 1, "DilationWFactor": 1}
    none = {k: 1 for k in dilated}
    yield Case("CONV_3D", [volume], [(1, 3, 6, 2, 4)], ("Conv3DOptions", {"Padding": 0, ACT: 1, **steps, **none}),
               weights(2, 3, 2, 3, 4), formats=FLOAT)  # fmt: skip
    yield Case("CONV_3D", [volume], [(1, 3, 4, 3, 4)],
               ("Conv3DOptions", {"Padding": 1, ACT: 0, "StrideD": 1, "StrideH": 1, "StrideW": 1, **dilated}),
               weights(2, 3, 2, 3, 4), formats=FLOAT, label="dilated")  # fmt: skip
    for label, padding, shape in (("", 0, (1, 10, 6, 8, 4)), ("valid", 1, (1, 11, 8, 8, 4))):
        w, b = weights(3, 3, 2, 4, 3)
        yield Case("CONV_3D_TRANSPOSE", [volume], [shape],
                   ("Conv3DOptions", {"Padding": padding, ACT: 0, **steps, **none}), [i32("shape", shape), w],
                   first=True, shape=b, formats=FLOAT, label=label)  # fmt: skip


def _casts() -> Iterator[Case]:
    for source in ("float32", "int8", "uint8", "int16"):
        made = ("int8", "int16") if source == "int16" else ("int8", "uint8", "int16")
        yield Case("QUANTIZE", [IMAGE], [IMAGE], formats=made, source=source, label=f"of {source}")
    yield Case("DEQUANTIZE", [IMAGE], [IMAGE], formats=("int8", "uint8", "int16"), result=np.float32)
    for source, target in (("float32", "int32"), ("int32", "float32"), ("float32", "int8"), ("int32", "bool"),
                           ("bool", "float32"), ("float32", "bool"), ("int32", "int16"), ("int8", "int32"),
                           ("uint8", "int32"), ("uint8", "float32"), ("uint8", "bool"),
                           ("int16", "int32")):  # fmt: skip
        codes = {"InDataType": CODES[source], "OutDataType": CODES[target]}
        yield Case("CAST", [ROWS], [ROWS], ("CastOptions", codes), formats=(source,), result=np.dtype(target),
                   label=f"to {target}")  # fmt: skip


SOURCES: Sequence[Callable[[], Iterator[Case]]] = (
    _pairs, _functions, _windows, _reductions, _movement, _others, _integers, _choices, _scatters, _volumes, _casts
)  # fmt: skip
CASES = [case for source in SOURCES for case in source()]

IN_FORMATS = [
    (case, format)
    for n, case in enumerate(CASES)
    for format in (case.formats if THOROUGH else [case.formats[n % len(case.formats)]])
]
"""Each case in the formats that it has; for `make test` in one of them, which the cases take in turn."""
