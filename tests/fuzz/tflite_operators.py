"""How each operator of a TFLite file is drawn."""

from collections.abc import Callable

import numpy as np

from tests.frontends.tflite.files import Op, interpreter, model, run
from tests.fuzz.tflite_drawing import Drawing, Refused

ACT = "FusedActivationFunction"
PROBABILITIES = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
SIGNED = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)}
LOGS = {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)}

TABLE: dict[str, Callable[[Drawing], object]] = {}


def draws(*kinds: str) -> Callable[[Callable[[Drawing, str], object]], Callable[[Drawing, str], object]]:
    """Enters a function for operators; it is told which."""

    def register(function: Callable[[Drawing, str], object]) -> Callable[[Drawing, str], object]:
        for kind in kinds:
            TABLE[kind] = lambda d, kind=kind: function(d, kind)
        return function

    return register


@draws("ABS", "NEG", "HARD_SWISH", "ELU", "EXP", "COS", "SIN", "FLOOR", "CEIL", "ROUND", "SQUARE", "GELU")
def _function(d: Drawing, kind: str) -> None:
    d.add(kind, [d.pick()], ("GeluOptions", {"Approximate": d.chance(0.5)}) if kind == "GELU" else ("", {}))


@draws("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def _clamp(d: Drawing, kind: str) -> None:
    d.add(kind, [d.pick()])


@draws("LOG", "SQRT", "RSQRT")
def _of_positive(d: Drawing, kind: str) -> None:
    x = d.add("ABS", [d.pick()])[0]
    d.add(kind, [d.add("ADD", [x, d.real(np.array([0.3]))], ("AddOptions", {ACT: 0}))[0]])


@draws("LEAKY_RELU")
def _leaky(d: Drawing, kind: str) -> None:
    d.add(kind, [d.pick()], ("LeakyReluOptions", {"Alpha": d.choice([0.1, 0.3])}))


@draws("LOGISTIC", "TANH")
def _squashing(d: Drawing, kind: str) -> None:
    d.add(kind, [d.pick()], fixed=(PROBABILITIES if kind == "LOGISTIC" else SIGNED).get(d.format))


@draws("SOFTMAX")
def _softmax(d: Drawing, kind: str) -> None:
    d.add(kind, [d.pick()], ("SoftmaxOptions", {"Beta": 1.0}), fixed=PROBABILITIES.get(d.format))


@draws("LOG_SOFTMAX")
def _log_softmax(d: Drawing, kind: str) -> None:
    d.add(kind, [d.pick()], ("LogSoftmaxOptions", {}), fixed=LOGS.get(d.format))


@draws("L2_NORMALIZATION")
def _l2(d: Drawing, kind: str) -> None:
    d.add(kind, [d.pick(2)], ("L2NormOptions", {ACT: 0}), fixed=SIGNED.get(d.format))


@draws("ADD", "SUB", "MUL", "DIV")
def _binary(d: Drawing, kind: str) -> None:
    x = d.pick()
    act = d.choice([0, 0, 0, 1, 3])
    other = _other(d, x) if kind != "DIV" else d.real(d.rng.uniform(0.5, 2, d.shape(x)[-1:]))
    operands = [x, other] if d.chance(0.75) or kind == "DIV" else [other, x]
    d.add(kind, operands, (f"{kind.capitalize()}Options", {ACT: act}))


def _other(d: Drawing, x: int) -> int:
    same = [y for y in d.computed if d.shape(y) == d.shape(x)]
    if d.chance(0.5):
        return d.choice(same)
    shape = [1 if d.chance(0.25) else s for s in d.shape(x)]
    return d.real(d.rng.normal(size=shape[d.integer(0, len(shape) - 1) :]))


@draws("MAXIMUM", "MINIMUM")
def _extreme(d: Drawing, kind: str) -> None:
    x = d.pick()
    d.add(kind, [x, x if d.format != "float32" else _other(d, x)], same=True)


@draws("SQUARED_DIFFERENCE")
def _squared_difference(d: Drawing, kind: str) -> None:
    x = d.pick()
    d.add(kind, [x, _other(d, x)])


@draws("PRELU")
def _prelu(d: Drawing, kind: str) -> None:
    if d.format == "int16":
        raise Refused("its products overflow in LiteRT")
    x = d.pick(2)
    d.add(kind, [x, d.real(d.rng.normal(size=d.shape(x)[-1:]) * 0.3)])


@draws("CONV_2D", "DEPTHWISE_CONV_2D")
def _convolution(d: Drawing, kind: str) -> None:
    x = d.pick(4)
    _, height, width, channels = d.shape(x)
    rows, columns = d.integer(1, min(3, height)), d.integer(1, min(3, width))
    steps = {"StrideH": d.integer(1, 3), "StrideW": d.integer(1, 3), "DilationHFactor": 1, "DilationWFactor": 1}
    options = {"Padding": d.integer(0, 1), ACT: d.choice([0, 0, 1, 3]), **steps}
    if kind == "CONV_2D":
        d.contraction(kind, x, (d.integer(1, 9), rows, columns, channels), 0, ("Conv2DOptions", options))
        return
    times = d.integer(1, 2)
    options["DepthMultiplier"] = times
    d.contraction(kind, x, (1, rows, columns, channels * times), 3, ("DepthwiseConv2DOptions", options))


@draws("FULLY_CONNECTED")
def _fully_connected(d: Drawing, kind: str) -> None:
    x = d.pick(2)
    options = ("FullyConnectedOptions", {ACT: d.choice([0, 0, 1, 3]), "KeepNumDims": len(d.shape(x)) > 2})
    d.contraction(kind, x, (d.integer(1, 9), d.shape(x)[-1]), 0, options)


@draws("TRANSPOSE_CONV")
def _transposed(d: Drawing, kind: str) -> None:
    x = d.pick(4)
    n, height, width, channels = d.shape(x)
    outputs, stride = d.integer(1, 4), d.integer(1, 2)
    shape = d.integers([n, height * stride, width * stride, outputs])
    options = ("TransposeConvOptions", {"Padding": 0, "StrideH": stride, "StrideW": stride, ACT: 0})
    d.contraction(kind, x, (outputs, 2, 3, channels), 0, options, extra=shape)


@draws("BATCH_MATMUL")
def _batch_matmul(d: Drawing, kind: str) -> None:
    x = d.pick(2)
    d.add(kind, [x, x], ("BatchMatMulOptions", {"AdjX": False, "AdjY": True}))


@draws("AVERAGE_POOL_2D", "MAX_POOL_2D")
def _pool(d: Drawing, kind: str) -> None:
    x = d.pick(4)
    _, height, width, _ = d.shape(x)
    sizes = {"FilterHeight": d.integer(1, min(3, height)), "FilterWidth": d.integer(1, min(3, width))}
    options = {"Padding": d.integer(0, 1), "StrideH": d.integer(1, 3), "StrideW": d.integer(1, 2), ACT: 0, **sizes}
    d.add(kind, [x], ("Pool2DOptions", options), same=True)


@draws("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
def _reduction(d: Drawing, kind: str) -> None:
    x = d.pick()
    rank = len(d.shape(x))
    axes = sorted({d.integer(0, rank - 1) for _ in range(2)})
    options = ("ReducerOptions", {"KeepDims": d.chance(0.5)})
    d.add(kind, [x, d.integers(axes)], options, same=kind.startswith("REDUCE"))


@draws("RESHAPE")
def _reshape(d: Drawing, kind: str) -> None:
    x = d.pick()
    sizes = [*d.shape(x)]
    at = d.integer(0, len(sizes) - 1)
    sizes = (
        [*sizes[:at], 1, *sizes[at:]] if len(sizes) < 4 and d.chance(0.5) else [int(np.prod(sizes[:at])), *sizes[at:]]
    )
    d.add(kind, [x, d.integers(sizes)], ("ReshapeOptions", {"NewShape": sizes}), same=True)


@draws("TRANSPOSE")
def _transpose(d: Drawing, kind: str) -> None:
    x = d.pick()
    d.add(kind, [x, d.integers(d.rng.permutation(len(d.shape(x))))], same=True)


@draws("PAD", "MIRROR_PAD")
def _pad(d: Drawing, kind: str) -> None:
    x = d.pick()
    pads = [[d.integer(0, min(2, s - 1)), d.integer(0, min(2, s - 1))] for s in d.shape(x)]
    options = ("MirrorPadOptions", {"Mode": d.integer(0, 1)}) if kind == "MIRROR_PAD" else ("PadOptions", {})
    d.add(kind, [x, d.integers(pads)], options, same=True)


@draws("CONCATENATION")
def _concatenation(d: Drawing, kind: str) -> None:
    x = d.pick()
    axis = d.integer(0, len(d.shape(x)) - 1)

    def rest(y: int) -> tuple[int, ...]:
        return (len(d.shape(y)), *d.shape(y)[:axis], *d.shape(y)[axis + 1 :])

    alike = [y for y in d.computed if rest(y) == rest(x)]
    same = d.format == "int16"
    other = x if same else d.choice(alike)
    d.add(kind, [x, other], ("ConcatenationOptions", {"Axis": axis, ACT: 0}), same=same)


@draws("SPLIT")
def _split(d: Drawing, kind: str) -> None:
    x = d.pick()
    axis = int(np.argmax(d.shape(x)))
    parts = d.choice([p for p in (2, 3, 1) if d.shape(x)[axis] % p == 0])
    d.add(kind, [d.integers(axis), x], ("SplitOptions", {"NumSplits": parts}), results=parts, same=True)


@draws("STRIDED_SLICE")
def _strided_slice(d: Drawing, kind: str) -> None:
    x = d.pick()
    begin = [d.integer(0, s - 1) for s in d.shape(x)]
    end = [d.integer(b + 1, s) for b, s in zip(begin, d.shape(x), strict=True)]
    steps = [d.integer(1, 2) for _ in begin]
    d.add(kind, [x, d.integers(begin), d.integers(end), d.integers(steps)], ("StridedSliceOptions", {}), same=True)


@draws("GATHER")
def _gather(d: Drawing, kind: str) -> None:
    x = d.pick()
    axis = d.integer(0, len(d.shape(x)) - 1)
    places = d.rng.integers(0, d.shape(x)[axis], d.integer(1, 4))
    d.add(kind, [x, d.integers(places)], ("GatherOptions", {"Axis": axis}), same=True)


@draws("EXPAND_DIMS")
def _expand_dims(d: Drawing, kind: str) -> None:
    x = d.pick(1, 3)
    d.add(kind, [x, d.integers(d.integer(0, len(d.shape(x))))], same=True)


@draws("PACK")
def _pack(d: Drawing, kind: str) -> None:
    x = d.pick(1, 3)
    d.add(kind, [x, x], ("PackOptions", {"ValuesCount": 2, "Axis": d.integer(0, len(d.shape(x)))}), same=True)


@draws("TILE")
def _tile(d: Drawing, kind: str) -> None:
    x = d.pick()
    d.add(kind, [x, d.integers([d.integer(1, 2) for _ in d.shape(x)])], same=True)


@draws("REVERSE_V2")
def _reverse(d: Drawing, kind: str) -> None:
    x = d.pick()
    d.add(kind, [x, d.integers([d.integer(0, len(d.shape(x)) - 1)])], same=True)


@draws("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(d: Drawing, kind: str) -> None:
    x = d.pick(4)
    sizes = d.integers([d.integer(1, 2 * s) for s in d.shape(x)[1:3]])
    corners = d.chance(0.3)
    name = "ResizeBilinearOptions" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    centers = d.chance(0.5) and not corners
    d.add(kind, [x, sizes], (name, {"AlignCorners": corners, "HalfPixelCenters": centers}), same=True)


@draws("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def _blocks(d: Drawing, kind: str) -> None:
    name = "SpaceToDepthOptions" if kind == "SPACE_TO_DEPTH" else "DepthToSpaceOptions"
    d.add(kind, [d.pick(4)], (name, {"BlockSize": 2}), same=True)


# -- operators that LiteRT has for floats only, or without parameters of their own ------------------------------------


def only_floats(d: Drawing) -> None:
    """Refuses files of integers."""
    if d.format != "float32":
        raise Refused("for floats only")


@draws("SIGN", "ADD_N", "ATAN2", "FLOOR_DIV", "FLOOR_MOD", "POW", "ZEROS_LIKE")
def _of_floats(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick()
    options = (
        ("ATan2Options", {}) if kind == "ATAN2" else ("ZerosLikeOptions", {}) if kind == "ZEROS_LIKE" else ("", {})
    )
    if kind in ("SIGN", "ZEROS_LIKE"):
        operands = [x]
    elif kind in ("ADD_N", "ATAN2"):
        other = d.rng.normal(size=d.shape(x))
        if kind == "ATAN2":  # 0 / 0 is NaN, for which QuantizeLinear defines no integer
            other = np.copysign(0.3 + np.abs(other), other)
        operands = [x, d.real(other)]
    elif kind == "POW":
        operands = [d.add("ADD", [d.add("ABS", [x])[0], d.real(np.array([0.3]))], ("AddOptions", {ACT: 0}))[0],
                    d.real(np.array([d.choice([2.0, 0.5, -0.7])]))]  # fmt: skip
    else:
        operands = [x, d.real(d.rng.uniform(0.5, 2, d.shape(x)[-1:]))]
    d.add(kind, operands, options)


@draws("REDUCE_PROD", "CUMSUM")
def _products(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick()
    axis = d.integers(
        [d.integer(0, len(d.shape(x)) - 1)] if kind == "REDUCE_PROD" else d.integer(0, len(d.shape(x)) - 1)
    )
    options = ("ReducerOptions", {"KeepDims": d.chance(0.5)})
    if kind == "CUMSUM":
        options = ("CumsumOptions", {"Exclusive": d.chance(0.5), "Reverse": d.chance(0.5)})
    d.add(kind, [x, axis], options)


@draws("L2_POOL_2D")
def _l2_pool(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick(4)
    _, height, width, _ = d.shape(x)
    sizes = {"FilterHeight": d.integer(1, min(3, height)), "FilterWidth": d.integer(1, min(3, width))}
    d.add(kind, [x], ("Pool2DOptions", {"Padding": d.integer(0, 1), "StrideH": 1, "StrideW": 2, ACT: 0, **sizes}))


@draws("MATRIX_DIAG", "MATRIX_SET_DIAG")
def _diagonal(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick(2, 3)
    if kind == "MATRIX_DIAG":
        d.add(kind, [x], ("MatrixDiagOptions", {}))
        return
    *batch, rows, columns = d.shape(x)
    diagonal = d.real(d.rng.normal(size=(*batch, min(rows, columns))))
    d.add(kind, [x, diagonal], ("MatrixSetDiagOptions", {}))


@draws("CONV_3D")
def _volume(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.add("EXPAND_DIMS", [d.pick(4), d.integers(d.integer(0, 3))], same=True)[0]
    channels, outputs = d.shape(x)[4], d.integer(1, 4)
    kernel = [d.integer(1, min(2, s)) for s in d.shape(x)[1:4]]
    w = d.real(d.rng.normal(size=(*kernel, channels, outputs)) * 0.4)
    steps = {name: d.integer(1, 2) for name in ("StrideD", "StrideH", "StrideW")}
    none = {name: 1 for name in ("DilationDFactor", "DilationHFactor", "DilationWFactor")}
    options = ("Conv3DOptions", {"Padding": d.integer(0, 1), ACT: d.choice([0, 1]), **steps, **none})
    y = d.add(kind, [x, w, d.real(d.rng.normal(size=outputs))], options)[0]
    d.add("RESHAPE", [y, d.integers([-1, outputs])], ("ReshapeOptions", {"NewShape": [-1, outputs]}), same=True)


@draws("CONV_3D_TRANSPOSE")
def _transposed_volume(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.add("EXPAND_DIMS", [d.pick(4), d.integers(d.integer(0, 3))], same=True)[0]
    n, *sizes, channels = d.shape(x)
    outputs, kernel, strides = d.integer(1, 3), [d.integer(1, 2) for _ in sizes], [d.integer(1, 2) for _ in sizes]
    w = d.real(d.rng.normal(size=(*kernel, outputs, channels)) * 0.4)
    shape = d.integers([n, *(s * t for s, t in zip(sizes, strides, strict=True)), outputs])
    steps = dict(zip(("StrideD", "StrideH", "StrideW"), strides, strict=True))
    none = {name: 1 for name in ("DilationDFactor", "DilationHFactor", "DilationWFactor")}
    y = d.add(kind, [shape, w, x, d.real(d.rng.normal(size=outputs))],
              ("Conv3DOptions", {"Padding": 0, ACT: 0, **steps, **none}))[0]  # fmt: skip
    d.add("RESHAPE", [y, d.integers([-1, outputs])], ("ReshapeOptions", {"NewShape": [-1, outputs]}), same=True)


@draws("SCATTER_ND", "SPARSE_TO_DENSE")
def _scatter(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick(1, 2) if kind == "SCATTER_ND" else d.pick(1, 1)
    rows, count = d.integers(d.rng.permutation(d.shape(x)[0] + 2)[: d.shape(x)[0], None]), d.shape(x)[0] + 2
    if kind == "SCATTER_ND":
        d.add(kind, [rows, x, d.integers([count, *d.shape(x)[1:]])], ("ScatterNdOptions", {}))
        return
    places = np.sort(d.rng.permutation(count)[: d.shape(x)[0]])
    operands = [d.integers(places), d.integers([count]), x, d.real(np.array(d.choice([0.0, 1.5])))]
    d.add(kind, operands, ("SparseToDenseOptions", {}))


@draws("UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN")
def _segments(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick(1, 3)
    count = d.integer(1, 4)
    segments = d.rng.integers(0, count, d.shape(x)[0])
    segments[: min(count, len(segments))] = np.arange(min(count, len(segments)))
    if len(segments) < count:
        raise Refused("the largest float stands for the elements of an empty segment")
    name = f"UnsortedSegment{kind.rpartition('_')[2].capitalize()}Options"
    d.add(kind, [x, d.integers(segments), d.integers(count)], (name, {}))


@draws("FAKE_QUANT")
def _fake_quantization(d: Drawing, kind: str) -> None:
    only_floats(d)
    d.add(kind, [d.pick()], ("FakeQuantOptions", {"Min": -1.5, "Max": 2.0, "NumBits": 8}))


# -- movement of elements --------------------------------------------------------------------------------------------


@draws("SLICE")
def _slice(d: Drawing, kind: str) -> None:
    x = d.pick()
    begin = [d.integer(0, s - 1) for s in d.shape(x)]
    sizes = [d.choice([-1, d.integer(1, s - b)]) for b, s in zip(begin, d.shape(x), strict=True)]
    d.add(kind, [x, d.integers(begin), d.integers(sizes)], ("SliceOptions", {}), same=True)


@draws("SPLIT_V")
def _split_by_sizes(d: Drawing, kind: str) -> None:
    x = d.pick()
    axis = int(np.argmax(d.shape(x)))
    first = d.integer(1, d.shape(x)[axis] - 1)
    operands = [x, d.integers([first, -1]), d.integers(axis)]
    d.add(kind, operands, ("SplitVOptions", {"NumSplits": 2}), results=2, same=True)


@draws("UNPACK")
def _unpack(d: Drawing, kind: str) -> None:
    x = d.pick(2)
    axis = d.integer(0, len(d.shape(x)) - 1)
    count = d.shape(x)[axis]
    d.add(kind, [x], ("UnpackOptions", {"Num": count, "Axis": axis}), results=count, same=True)


@draws("SQUEEZE")
def _squeeze(d: Drawing, kind: str) -> None:
    x = d.pick(1, 3)
    axis = d.integer(0, len(d.shape(x)))
    y = d.add("EXPAND_DIMS", [x, d.integers(axis)], same=True)[0]
    d.add(kind, [y], ("SqueezeOptions", {"SqueezeDims": [axis]}), same=True)


@draws("GATHER_ND")
def _gather_nd(d: Drawing, kind: str) -> None:
    x = d.pick()
    depth = d.integer(1, len(d.shape(x)))
    places = [[d.integer(0, s - 1) for s in d.shape(x)[:depth]] for _ in range(d.integer(1, 3))]
    d.add(kind, [x, d.integers(places)], ("GatherNdOptions", {}), same=True)


@draws("BROADCAST_TO")
def _broadcast(d: Drawing, kind: str) -> None:
    x = d.pick()
    shape = [d.integer(2, 3) if s == 1 else s for s in d.shape(x)]
    d.add(kind, [x, d.integers([d.integer(1, 2), *shape])], ("BroadcastToOptions", {}), same=True, version=2)


@draws("SPACE_TO_BATCH_ND")
def _to_batches(d: Drawing, kind: str) -> None:
    x = d.pick(4)
    blocks = [d.integer(1, 2), d.integer(1, 3)]
    pads = [[0, -s % b] for s, b in zip(d.shape(x)[1:3], blocks, strict=True)]
    d.add(kind, [x, d.integers(blocks), d.integers(pads)], ("SpaceToBatchNDOptions", {}), same=True)


@draws("BATCH_TO_SPACE_ND")
def _from_batches(d: Drawing, kind: str) -> None:
    x = d.pick(4)
    factors = [[r, c] for r in (1, 2, 3) for c in (1, 2, 3) if d.shape(x)[0] % (r * c) == 0]
    blocks = d.choice(factors)
    crops = [[d.integer(0, 1) if b * s > 2 else 0, 0] for b, s in zip(blocks, d.shape(x)[1:3], strict=True)]
    d.add(kind, [x, d.integers(blocks), d.integers(crops)], ("BatchToSpaceNDOptions", {}), same=True)


@draws("REVERSE_SEQUENCE")
def _reverse_sequence(d: Drawing, kind: str) -> None:
    x = d.pick(2)
    lengths = d.integers(d.rng.integers(0, d.shape(x)[1] + 1, d.shape(x)[0]))
    d.add(kind, [x, lengths], ("ReverseSequenceOptions", {"SeqDim": 1, "BatchDim": 0}), same=True)


@draws("DYNAMIC_UPDATE_SLICE")
def _update(d: Drawing, kind: str) -> None:
    x = d.pick()
    part = d.add("SLICE", [x, d.integers([0] * len(d.shape(x))), d.integers([d.integer(1, s) for s in d.shape(x)])],
                 ("SliceOptions", {}), same=True)[0]  # fmt: skip
    start = d.integers([d.integer(-1, s - 1) for s in d.shape(x)])
    d.add(kind, [x, part, start], ("DynamicUpdateSliceOptions", {}), same=True)


@draws("EMBEDDING_LOOKUP")
def _embedding(d: Drawing, kind: str) -> None:
    x = d.pick(2)
    d.add(kind, [d.integers(d.rng.integers(0, d.shape(x)[0], d.integer(1, 4))), x], same=True)


@draws("FILL")
def _fill(d: Drawing, kind: str) -> None:
    x = d.add("GATHER_ND", [d.pick(1, 1), d.integers([0])], ("GatherNdOptions", {}), same=True)[0]
    d.add(kind, [d.integers([d.integer(1, 4), 3]), x], ("FillOptions", {}), same=True)


@draws("PADV2")
def _pad_with(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick()
    pads = [[d.integer(0, 2), d.integer(0, 2)] for _ in d.shape(x)]
    d.add(kind, [x, d.integers(pads), d.real(np.array(1.5))], ("PadV2Options", {}))


@draws("DILATE")
def _dilate(d: Drawing, kind: str) -> None:
    only_floats(d)
    x = d.pick()
    d.add(kind, [x, d.integers([d.integer(1, 3) for _ in d.shape(x)]), d.real(np.array(1.5))])


@draws("QUANTIZE")
def _requantize(d: Drawing, kind: str) -> None:
    if d.format == "float32":
        raise Refused("floats")
    x = d.pick()
    found = d.tensor(f"t{len(d.tensors)}", d.shape(x), d.scaling(d.reals[x]))
    _between(d, Op(kind, [x], [found]), found)


@draws("DEQUANTIZE")
def _on_floats(d: Drawing, kind: str) -> None:
    """An operator on floats between casts, which LiteRT computes on floats."""
    if d.format == "float32":
        raise Refused("floats")
    x = d.pick()
    function = d.choice(["ABS", "NEG", "SQRT", "EXP", "TANH", "LEAKY_RELU", "LOGISTIC", "HARD_SWISH", "RELU"])
    before = len(d.tensors)
    floats = [d.tensor(f"t{before + i}", d.shape(x), None, np.float32) for i in range(2)]
    options = ("LeakyReluOptions", {"Alpha": 0.1}) if function == "LEAKY_RELU" else ("", {})
    source = d.add("ABS", [x])[0] if function == "SQRT" else x
    ops = [Op(kind, [source], [floats[0]]), Op(function, [floats[0]], [floats[1]], *options)]
    try:
        made = interpreter(model(d.tensors, [*d.ops, *ops], d.fed, [floats[1]]), "litert-reference")
        reals = [run(made, sample)[0] for sample in d.samples]
    except (RuntimeError, ValueError) as error:
        raise Refused(str(error)) from None
    if not all(np.isfinite(a).all() for a in reals):
        raise Refused("values")
    d.ops += ops
    found = d.tensor(f"t{len(d.tensors)}", d.shape(x), d.scaling(reals))
    _between(d, Op("QUANTIZE", [floats[1]], [found]), found)


def _between(d: Drawing, op: Op, found: int) -> None:
    """Appends an operator whose result is described already."""
    try:
        made = interpreter(model(d.tensors, [*d.ops, op], d.fed, [found]), "litert-reference")
        stored = [run(made, sample)[0] for sample in d.samples]
    except (RuntimeError, ValueError) as error:
        raise Refused(str(error)) from None
    d.ops.append(op)
    d.reals[found] = [d.meant(each, d.parameters(found)) for each in stored]
    d.computed.append(found)
