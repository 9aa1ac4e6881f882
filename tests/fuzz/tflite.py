"""TFLite files of several operators, drawn with LiteRT, and what has to hold of them.

A file stores its tensors as floats, as int8, as uint8 or as int16 beside int8 weights. Each operator is run by LiteRT
on floats when it is drawn, for its result's shape and range, and then in the file: what LiteRT refuses is no operator,
nor is one whose integers are far from its floats, since some of LiteRT's kernels overflow.

    import     qmlir takes the file or refuses it by a typed error
    values     the reference, under litert-reference, gives LiteRT's integers; floats within ε
    machine    the CPU gives the reference's bits
    saved      the module that is saved and read again gives the same bits
    export     the file that qmlir writes of it gives LiteRT's integers again
    quantize   a file of floats is quantized or refused by a typed error, and the three checks above hold
"""

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.errors import QmlirError
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from qmlir.runtimes import follow
from tests.backends.tflite.runtime import kinds
from tests.frontends.tflite.files import Op, T, constant, interpreter, model, run
from tests.fuzz.checks import EPSILON, Finding, Outcome, check, far, has_float_parts, learnt, place, reason, running
from tests.fuzz.graphs import Array
from tests.fuzz.options import Options, Shares, draw_options
from tests.fuzz.shrink import array_text, options_text, smaller, source

FORMATS = ("float32", "int8", "int8", "uint8", "int16")
SAMPLES = 3
LIMITS = {name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in ("int8", "uint8", "int16")}


class Refused(Exception):
    """An operator that cannot be: it is taken back."""


@dataclass(frozen=True)
class File:
    """A file under construction or done.

    tensors  with their parameters
    ops      in order
    fed      indices of the inputs
    results  indices of the outputs
    samples  an array for each input, several times
    """

    tensors: tuple[T, ...]
    ops: tuple[Op, ...]
    fed: tuple[int, ...]
    results: tuple[int, ...]
    samples: tuple[tuple[Array, ...], ...]

    def data(self) -> bytes:
        """The file's bytes."""
        return model(self.tensors, self.ops, self.fed, self.results)


class Drawing:
    """A file under construction, with what its tensors stand for on each sample, as floats."""

    def __init__(self, rng: np.random.Generator):
        self.rng, self.format = rng, str(rng.choice(FORMATS))
        self.tensors: list[T] = []
        self.ops: list[Op] = []
        self.fed: list[int] = []
        self.reals: dict[int, list[Array]] = {}
        self.computed: list[int] = []
        self.samples: list[list[Array]] = [[] for _ in range(SAMPLES)]

    def choice(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        """True as often as the probability says."""
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1)) if high > low else low

    def shape(self, x: int) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self.reals[x][0].shape)

    # -- tensors ----------------------------------------------------------------------------------------------

    def scaling(self, arrays: Sequence[Array]) -> tuple[float, int]:
        """Scale and zero point for values; now and then a scale that is too wide or too narrow."""
        low = min(0.0, *(float(a.min(initial=0)) for a in arrays))
        high = max(0.0, *(float(a.max(initial=0)) for a in arrays))
        width = max(high - low, 1e-3) * self.choice([1.0, 1.0, 1.0, 1.3, 0.8])
        least, most = LIMITS[self.format]
        if self.format == "int16":
            return float(np.float32(max(-low, high, 1e-3) / most)), 0
        scale = float(np.float32(width / (most - least)))
        return scale, int(np.clip(np.rint(least - low / scale), least, most))

    def tensor(self, name: str, shape: Sequence[int], scaling: tuple[float, int] | None, dtype: Any = None) -> int:
        """A computed tensor."""
        kind = np.dtype(dtype or self.format)
        parameters = {"scale": [scaling[0]], "zero": [scaling[1]]} if scaling and self.format != "float32" else {}
        self.tensors.append(T(name, tuple(shape), kind, None, **parameters))
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int]) -> int:
        """An input with its samples."""
        wide = self.choice([0.3, 1.0, 4.0])
        reals = [np.asarray(self.rng.normal(size=tuple(shape)) * wide, np.float32) for _ in range(SAMPLES)]
        scaling = self.scaling(reals) if self.format != "float32" else None
        x = self.tensor(f"x{len(self.fed)}", shape, scaling)
        self.fed.append(x)
        for sample, real in zip(self.samples, reals, strict=True):
            sample.append(self.stored(real, scaling))
        self.reals[x] = [self.meant(s[-1], scaling) for s in self.samples]
        self.computed.append(x)
        return x

    def stored(self, real: Array, scaling: tuple[float, int] | None) -> Array:
        """Floats as a file of this format stores them."""
        if scaling is None:
            return real.astype(np.float32)
        least, most = LIMITS[self.format]
        return np.clip(np.rint(real / scaling[0]) + scaling[1], least, most).astype(self.format)

    def meant(self, stored: Array, scaling: tuple[float, int] | None) -> Array:
        """The floats that stored numbers stand for."""
        if scaling is None:
            return stored.astype(np.float32)
        return ((stored.astype(np.float64) - scaling[1]) * scaling[0]).astype(np.float32)

    def parameters(self, x: int) -> tuple[float, int] | None:
        """Scale and zero point of a tensor."""
        t = self.tensors[x]
        return (t.scale[0], t.zero[0] if t.zero else 0) if t.scale else None

    def real(self, array: Array) -> int:
        """A constant of the file's format that stands for floats."""
        array = np.asarray(array, np.float32)
        scaling = self.scaling([array]) if self.format != "float32" else None
        stored = self.stored(array, scaling)
        parameters = {"scale": [scaling[0]], "zero": [scaling[1]]} if scaling else {}
        self.tensors.append(constant(f"c{len(self.tensors)}", stored, **parameters))
        self.reals[len(self.tensors) - 1] = [self.meant(stored, scaling)] * SAMPLES
        return len(self.tensors) - 1

    def integers(self, values: Any) -> int:
        """A constant of int32."""
        self.tensors.append(constant(f"i{len(self.tensors)}", np.asarray(values, np.int32)))
        return len(self.tensors) - 1

    def pick(self, low: int = 1, high: int = 4) -> int:
        """A computed tensor of a rank between the two, the newest most often, or a new input."""
        fitting = [x for x in self.computed if low <= len(self.shape(x)) <= high]
        if fitting and not (len(self.fed) < 3 and self.chance(0.1)):
            return fitting[-1] if self.chance(0.7) else self.choice(fitting)
        if len(self.fed) >= 3:
            raise Refused("enough inputs")
        rank = min(max(self.choice([1, 2, 3, 4, 4, 4]), low), high)
        return self.input([1 if self.chance(0.15) else self.integer(2, 7) for _ in range(rank)])

    # -- operators ----------------------------------------------------------------------------------------------

    def add(
        self, kind: str, operands: Sequence[int], options: tuple[str, Mapping[str, Any]] = ("", {}), *,
        results: int = 1, same: bool = False, fixed: tuple[float, int] | None = None, version: int = 1,
        weights: Mapping[int, Array] | None = None,
    ) -> list[int]:  # fmt: skip
        """Appends an operator.

        Args:
            kind: Its name in the schema.
            operands: Tensors.
            options: The kind of its options, and them by name.
            results: How many it has.
            same: Whether results have the first computed operand's parameters.
            fixed: Parameters that the kernel takes for granted.
            version: Of the operator.
            weights: What constants of another storage stand for.

        Raises:
            Refused: LiteRT does not take it.
        """
        computed = [x for x in operands if x in self.reals and x in self.computed]
        reals = self._on_floats(kind, operands, options, results, weights or {}, version)
        if any(not np.isfinite(a).all() or a.size > 4096 for arrays in reals for a in arrays):
            raise Refused("values")
        before, found = len(self.tensors), list[int]()
        for arrays in reals:
            scaling = None
            if self.format != "float32":
                scaling = self.parameters(computed[0]) if same and computed else fixed or self.scaling(arrays)
            found.append(self.tensor(f"t{len(self.tensors)}", arrays[0].shape, scaling))
        op = Op(kind, list(operands), found, options[0], options[1], version)
        try:
            made = interpreter(model(self.tensors, [*self.ops, op], self.fed, found), "litert-reference")
            stored = [run(made, sample) for sample in self.samples]
        except (RuntimeError, ValueError) as error:
            del self.tensors[before:]
            raise Refused(str(error)) from None
        meant = [[self.meant(each[i], self.parameters(x)) for each in stored] for i, x in enumerate(found)]
        if any(map(self._is_far, found, meant, reals)):
            del self.tensors[before:]
            raise Refused("a kernel that is wrong")
        self.ops.append(op)
        self.reals |= dict(zip(found, meant, strict=True))
        self.computed += found
        return found

    def _is_far(self, x: int, meant: Sequence[Array], reals: Sequence[Array]) -> bool:
        """Whether a result is nowhere near that of floats, as far as its type reaches."""
        if (scaling := self.parameters(x)) is None:
            return False
        low, high = (scaling[0] * (limit - scaling[1]) for limit in LIMITS[self.format])
        apart = [np.abs(a - np.clip(b, low, high)).max(initial=0) for a, b in zip(meant, reals, strict=True)]
        return bool(max(apart) > 0.15 * (high - low))

    def _on_floats(
        self, kind: str, operands: Sequence[int], options: tuple[str, Mapping[str, Any]], results: int,
        weights: Mapping[int, Array], version: int,
    ) -> list[list[Array]]:  # fmt: skip
        """What the operator makes of floats: an array for each result and sample."""
        parts, fed = list[T](), list[int]()
        for i, x in enumerate(operands):
            if x in weights or (x in self.reals and x not in self.computed):
                parts.append(constant(f"o{i}", weights[x] if x in weights else self.reals[x][0]))
            elif x in self.reals:
                fed.append(i)
                parts.append(T(f"o{i}", self.shape(x)))
            else:
                parts.append(self.tensors[x])
        n = len(parts)
        parts += [T(f"r{i}", ()) for i in range(results)]
        op = Op(kind, range(n), range(n, n + results), options[0], options[1], version)
        names = [x for i, x in enumerate(operands) if i in fed]
        try:
            made = interpreter(model(parts, [op], fed, list(op.outputs)), "litert-reference")
            found = [run(made, [self.reals[x][s] for x in names]) for s in range(SAMPLES)]
        except (RuntimeError, ValueError) as error:
            raise Refused(str(error)) from None
        return [[each[i].astype(np.float32) for each in found] for i in range(results)]

    def contraction(
        self, kind: str, x: int, shape: Sequence[int], axis: int, options: Any, extra: int | None = None
    ) -> int:
        """A layer with weights and most often a bias."""
        fan = max(1, int(np.prod(shape)) // shape[axis])
        real = (self.rng.normal(size=tuple(shape)) / np.sqrt(fan)).astype(np.float32)
        bias = self.rng.normal(size=shape[axis]).astype(np.float32)
        given: dict[int, Array] = {}
        if self.format == "float32":
            w, b = self.real(real), self.real(bias)
        else:
            w, steps = self._weights(real, axis)
            wide = np.int64 if self.format == "int16" else np.int32
            data = self.parameters(x)
            assert data is not None
            scales = [float(np.float32(data[0] * s)) for s in steps]
            stored = np.rint(bias / np.array(scales)).astype(wide)
            self.tensors.append(constant(f"b{len(self.tensors)}", stored, scale=scales, zero=[0] * len(scales)))
            b = len(self.tensors) - 1
            given = {w: real, b: bias}
        operands = [x, w, b] if extra is None else [extra, w, x]
        return self.add(kind, operands, options, weights=given)[0]

    def _weights(self, real: Array, axis: int) -> tuple[int, list[float]]:
        per_channel = self.format != "uint8" and self.chance(0.7)
        others = tuple(i for i in range(real.ndim) if i != axis)
        most = np.abs(real).max(axis=others if per_channel else None, keepdims=True)
        steps = np.maximum(most, 1e-6).astype(np.float32) / np.float32(127)
        stored, zero = np.clip(np.rint(real / steps), -127, 127), [0] * steps.size
        if self.format == "uint8":
            stored, zero = stored + 128, [128]
        kind = np.uint8 if self.format == "uint8" else np.int8
        scales = [float(s) for s in steps.ravel()]
        self.tensors.append(
            constant(
                f"w{len(self.tensors)}", stored.astype(kind), scale=scales, zero=zero, axis=axis if per_channel else 0
            )
        )
        return len(self.tensors) - 1, scales


# ---------------------------------------------------------------------------------------------------------------
# Operators

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


def draw(rng: np.random.Generator) -> File:
    """A file of 1 to 6 operators or a few more."""
    while True:
        d = Drawing(rng)
        wanted = d.integer(1, 6)
        for _ in range(6 * wanted):
            if len(d.ops) >= wanted:
                break
            with suppress(Refused):
                TABLE[d.choice(list(TABLE))](d)
        if d.ops:
            return _finished(d)


def _finished(d: Drawing) -> File:
    made = [x for x in d.computed if x not in d.fed]
    read = {x for op in d.ops for x in op.inputs}
    unread = [x for x in made if x not in read]
    results = [x for x in unread if d.chance(0.8)] or unread[-1:] or made[-1:]
    samples = tuple(tuple(sample) for sample in d.samples)
    return pruned(File(tuple(d.tensors), tuple(d.ops), tuple(d.fed), tuple(results), samples))


def pruned(file: File) -> File:
    """The file without operators, tensors and inputs that no output depends on."""
    needed, ops = set(file.results), list[Op]()
    for op in reversed(file.ops):
        if needed & set(op.outputs):
            ops.append(op)
            needed |= {*op.inputs, *op.outputs}
    kept = [i for i in range(len(file.tensors)) if i in needed]
    at = {old: new for new, old in enumerate(kept)}
    fed = [i for i, x in enumerate(file.fed) if x in needed]
    return File(
        tuple(file.tensors[i] for i in kept),
        tuple(
            replace(op, inputs=[at[i] for i in op.inputs], outputs=[at[i] for i in op.outputs]) for op in reversed(ops)
        ),
        tuple(at[file.fed[i]] for i in fed),
        tuple(at[i] for i in file.results),
        tuple(tuple(sample[i] for i in fed) for sample in file.samples),
    )


# ---------------------------------------------------------------------------------------------------------------
# Checks


@dataclass(frozen=True)
class TfliteCase:
    """A file and what is done with it."""

    file: File
    options: Options


def tflite_case(seed: int, number: int, shares: Shares) -> TfliteCase:
    """The file of a number, and its options."""
    rng = np.random.default_rng([seed, number, 1])
    file = draw(rng)
    names = [t.name for t in file.tensors if t.data is None]
    return TfliteCase(file, draw_options(rng, names, shares))


@check.register
def _(case: TfliteCase) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="qmlir-fuzz-") as folder, np.errstate(all="ignore"):
        return _Checks(case, Path(folder)).run()


@smaller.register
def _(case: TfliteCase) -> Iterator[TfliteCase]:
    file = case.file
    for x in file.results if len(file.results) > 1 else ():
        yield replace(case, file=pruned(replace(file, results=(x,))))
    made = [x for op in file.ops for x in op.outputs]
    for x in reversed(made):
        if x not in file.results:
            yield replace(case, file=_cut(file, x))
    for x in reversed(made):
        if (x,) != file.results:
            yield replace(case, file=pruned(replace(file, results=(x,))))
    if len(file.samples) > 1:
        yield replace(case, file=replace(file, samples=file.samples[:1]))
    for options in case.options.simpler():
        yield replace(case, options=options)


def _cut(file: File, x: int) -> File:
    """The file in which a tensor is an input."""
    made = interpreter(pruned(replace(file, results=(x,))).data(), "litert-reference")
    small = pruned(replace(file, results=(x,)))
    values = [run(made, list(sample))[0] for sample in small.samples]
    samples = tuple((*sample, value) for sample, value in zip(file.samples, values, strict=True))
    ops = tuple(op for op in file.ops if x not in op.outputs)
    return pruned(replace(file, ops=ops, fed=(*file.fed, x), samples=samples))


@source.register
def _(case: TfliteCase) -> str:
    file = case.file
    tensors = "".join(f"    {_tensor(t)},\n" for t in file.tensors)
    ops = "".join(f"    {op!r},\n" for op in file.ops)
    samples = "".join(f"    ({''.join(f'{array_text(a)}, ' for a in sample)}),\n" for sample in file.samples)
    return f"""import numpy as np

from tests.frontends.tflite.files import Op, T
from tests.fuzz.checks import check
from tests.fuzz.options import Options
from tests.fuzz.tflite import File, TfliteCase

TENSORS = (
{tensors})
OPS = (
{ops})
SAMPLES = (
{samples})
CASE = TfliteCase(File(TENSORS, OPS, {tuple(file.fed)}, {tuple(file.results)}, SAMPLES), {options_text(case.options)})
"""


def _tensor(t: T) -> str:
    data = "" if t.data is None else f", data={array_text(t.data)}"
    axis = f", axis={t.axis}" if t.axis else ""
    parameters = f", scale={list(t.scale)}, zero={list(t.zero)}{axis}" if t.scale else ""
    return f"T({t.name!r}, {tuple(map(int, t.shape))}, np.{np.dtype(t.dtype).name}{data}{parameters})"


class _Stopped(Exception):
    """A step without a result: what needs it is left out."""


class _Checks:
    def __init__(self, case: TfliteCase, folder: Path):
        self.file, self.options, self.folder = case.file, case.options, folder
        self.outcome = Outcome(operators=Counter(f"tflite.{op.kind}" for op in case.file.ops))

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """The result of a step; typed errors are counted, others are findings."""
        try:
            result = function()
        except QmlirError as error:
            self.outcome.refusals[name, reason(error)] += 1
            raise _Stopped from None
        except _Stopped:
            raise
        except Exception as error:
            self.find(name, place(error), f"{type(error).__name__}: {str(error)[:300]}")
            raise _Stopped from None
        self.outcome.done[name] += 1
        return result

    def find(self, check: str, kind: str, detail: str) -> None:
        self.outcome.findings.append(Finding(check, kind, detail))

    def run(self) -> Outcome:
        """All checks."""
        warnings.simplefilter("ignore")
        with suppress(_Stopped):
            module = self.step("tflite import", self._imported)
            self.names = [s.name for s in qmlir.reference(module).signature.inputs]
            self.feeds = [dict(zip(self.names, sample, strict=True)) for sample in self.file.samples]
            self._integers(module, "tflite")
            if self.file.tensors[self.file.fed[0]].dtype == np.float32 and not self.outcome.findings:
                self._quantized(module)
        return self.outcome

    def _imported(self) -> ModuleOp:
        module = load_tflite(self.file.data())
        follow(module, "litert-reference")
        if report := opaque_report(module):
            for kind in report:
                self.outcome.refusals["tflite import", f"{kind.kind}: {kind.reason}"] += 1
            raise _Stopped
        return module

    def _integers(self, module: ModuleOp, label: str) -> None:
        reference = qmlir.reference(module)
        ours = self.step(f"{label} values", lambda: [reference.run(feed) for feed in self.feeds])
        made = interpreter(self.file.data(), "litert-reference")
        for sample, found in zip(self.file.samples, ours, strict=True):
            for index, (got, want) in enumerate(zip(found, run(made, list(sample)), strict=True)):
                if (got.shape, got.dtype) != (want.shape, want.dtype):
                    self.find(
                        f"{label} values", "type", f"{index}: {got.dtype} {got.shape} for {want.dtype} {want.shape}"
                    )
                    return
                if not self._equal(got, want):
                    self.find(f"{label} values", self._culprit(), f"output {index}: {far(got, want)}")
                    return
        self._kept(module, reference, label)

    def _equal(self, got: Array, want: Array) -> bool:
        if want.dtype.kind != "f":
            floats = any(op.kind == "DEQUANTIZE" for op in self.file.ops)
            return bool(np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0) <= floats)
        most = np.abs(want).max(initial=0)
        return bool(np.all((got == want) | (np.abs(got - want) <= 20 * EPSILON * max(most, 1e-3))))

    def _culprit(self) -> str:
        """The first operator after which the reference and LiteRT differ."""
        for op in self.file.ops:
            part = pruned(replace(self.file, results=tuple(op.outputs)))
            module = load_tflite(part.data())
            follow(module, "litert-reference")
            reference, made = qmlir.reference(module), interpreter(part.data(), "litert-reference")
            names = [s.name for s in reference.signature.inputs]
            for sample in part.samples:
                found = reference.run(dict(zip(names, sample, strict=True)))
                if not all(map(self._equal, found, run(made, list(sample)))):
                    return op.kind
        return "the whole"

    def _kept(self, module: ModuleOp, reference: Any, label: str) -> None:
        """Saved, on the CPU and exported it is the same network."""
        path = self.folder / "saved.mlir"
        self.step(f"{label} saved", lambda: qmlir.save(module, path))
        self.same(f"{label} saved", lambda: qmlir.reference(qmlir.load(path)), reference)
        if self.options.machine:
            self.same(f"{label} machine", lambda: qmlir.compile(module), reference)
        out = self.folder / "out.tflite"
        with suppress(_Stopped):
            self.step(f"{label} export", lambda: qmlir.export(module, out, format="tflite"))
            theirs = self.step(f"{label} exported", lambda: running(out))
            casts = sum(isinstance(op, DequantizeCastOp) for op in main_function(module).body.block.ops)
            if has_float_parts(module) or kinds(out).count("DEQUANTIZE") > casts:
                return
            for feed in self.feeds:
                wanted = reference.run(feed)
                for index, (got, want) in enumerate(zip(theirs.run(list(feed.values())), wanted, strict=True)):
                    if not self._equal(got, want):
                        self.find(f"{label} exported", "values", f"output {index}: {far(got, want)}")
                        return

    def same(self, check: str, make: Callable[[], Any], reference: Any) -> None:
        """Holds a network to the reference, bit for bit."""
        with suppress(_Stopped):
            ours = self.step(check, make)
            for feed in self.feeds:
                for index, (got, want) in enumerate(zip(ours.run(feed), reference.run(feed), strict=True)):
                    alike = (got.shape, got.dtype) == (want.shape, want.dtype)
                    if not alike or not np.array_equal(got, want, equal_nan=got.dtype.kind == "f"):
                        self.find(check, "bits", f"output {index}: {far(got, want) if alike else 'another type'}")
                        return

    def _quantized(self, module: ModuleOp) -> None:
        profile = self.step("tflite profile", lambda: learnt(module, self.feeds, self.options.bins))
        data = self.feeds if self.options.data else None
        follow(module, self.options.numerics)
        options = replace(self.options, rules=())
        for each in (options, *options.easier()):
            with suppress(_Stopped):
                arguments: dict[str, Any] = each.arguments()
                quantized = self.step(
                    "tflite quantize", lambda a=arguments: qmlir.quantize(module, profile, data=data, **a)
                )
                reference = qmlir.reference(quantized)
                self.step("tflite reference", lambda: [reference.run(feed) for feed in self.feeds])
                follow(quantized, "litert-reference")
                self._kept(quantized, qmlir.reference(quantized), "tflite quantized")
                return
