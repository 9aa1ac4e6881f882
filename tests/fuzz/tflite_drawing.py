"""Draws TFLite files of several operators, each run by LiteRT when it is drawn.

A file stores its tensors as floats, as int8, as uint8 or as int16 beside int8 weights. Each operator is run on floats,
for its result's shape and range, and then in the file: what LiteRT refuses is no operator, nor is one whose integers
are far from its floats, since some of LiteRT's kernels overflow.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.chance import Chance
from tests.frontends.tflite.files import CODES, Op, T, constant, interpreter, model, run
from tests.fuzz.graphs import Array

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

    @property
    def format(self) -> str:
        """How it stores tensors."""
        return np.dtype(self.tensors[self.fed[0]].dtype).name

    @property
    def quantized(self) -> bool:
        """Whether it stores tensors as integers."""
        return self.format != "float32"

    @property
    def kinds(self) -> set[str]:
        """Its operators."""
        return {op.kind for op in self.ops}


class Drawing(Chance):
    """A file under construction, with what its tensors stand for on each sample, as floats."""

    def __init__(self, rng: np.random.Generator):
        self.rng, self.format = rng, str(rng.choice(FORMATS))
        self.tensors: list[T] = []
        self.ops: list[Op] = []
        self.fed: list[int] = []
        self.reals: dict[int, list[Array]] = {}
        self.counts: dict[int, list[Array]] = {}
        self.computed: list[int] = []
        self.samples: list[list[Array]] = [[] for _ in range(SAMPLES)]

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

    def truth(self, values: Any) -> int:
        """A constant of truth values."""
        self.tensors.append(constant(f"i{len(self.tensors)}", np.asarray(values, np.bool_)))
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

    # -- operators on truth values, counts and places ---------------------------------------------------------

    def _stored(self, op: Op, before: int) -> list[list[Array]]:
        """What LiteRT stores in an operator's results, for each sample.

        Raises:
            Refused: LiteRT does not take the operator; the tensors from `before` on are gone.
        """
        try:
            made = interpreter(model(self.tensors, [*self.ops, op], self.fed, op.outputs), "litert-reference")
            return [run(made, sample) for sample in self.samples]
        except (RuntimeError, ValueError) as error:
            del self.tensors[before:]
            raise Refused(str(error)) from None

    def counted(
        self, kind: str, operands: Sequence[int], dtypes: Sequence[Any],
        options: tuple[str, Mapping[str, Any]] = ("", {}), version: int = 1,
    ) -> list[int]:  # fmt: skip
        """Appends an operator with results that stand for themselves, or have the first operand's type: None.

        Raises:
            Refused: LiteRT does not take it.
        """
        before = len(self.tensors)
        own = self.parameters(operands[0]) if operands[0] in self.reals else None
        found = [self.tensor(f"t{before + i}", (), own if t is None else None, t) for i, t in enumerate(dtypes)]
        op = Op(kind, list(operands), found, options[0], options[1], version)
        stored = self._stored(op, before)
        if any(a.size > 4096 or (a.dtype.kind == "f" and not np.isfinite(a).all()) for each in stored for a in each):
            del self.tensors[before:]
            raise Refused("values")
        self.ops.append(op)
        for i, (x, dtype) in enumerate(zip(found, dtypes, strict=True)):
            arrays = [each[i] for each in stored]
            self.tensors[x] = replace(self.tensors[x], shape=arrays[0].shape)
            if dtype is None:
                self.reals[x] = [self.meant(a, own) for a in arrays]
                self.computed.append(x)
            else:
                self.counts[x] = arrays
        return found

    def brought_back(self, x: int) -> int:
        """Counts or truth values as a tensor of the file's format."""
        if self.tensors[x].dtype != np.dtype(np.float32):
            code = CODES[np.dtype(self.tensors[x].dtype).name]
            (x,) = self.counted(
                "CAST", [x], [np.float32], ("CastOptions", {"InDataType": code, "OutDataType": CODES["float32"]})
            )
        arrays = self.counts.pop(x)
        if self.format == "float32":
            self.reals[x] = arrays
            self.computed.append(x)
            return x
        scaling = self.scaling(arrays)
        found = self.tensor(f"t{len(self.tensors)}", arrays[0].shape, scaling)
        self.ops.append(Op("QUANTIZE", [x], [found]))
        self.reals[found] = [self.meant(self.stored(a, scaling), scaling) for a in arrays]
        self.computed.append(found)
        return found

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
        if any(not np.isfinite(a).all() or not 0 < a.size <= 4096 for arrays in reals for a in arrays):
            raise Refused("values")
        before, found = len(self.tensors), list[int]()
        for arrays in reals:
            scaling = None
            if self.format != "float32":
                scaling = self.parameters(computed[0]) if same and computed else fixed or self.scaling(arrays)
            found.append(self.tensor(f"t{len(self.tensors)}", arrays[0].shape, scaling))
        op = Op(kind, list(operands), found, options[0], options[1], version)
        stored = self._stored(op, before)
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
            elif x in self.counts:
                fed.append(i)
                parts.append(T(f"o{i}", self.counts[x][0].shape, self.tensors[x].dtype))
            else:
                parts.append(self.tensors[x])
        n = len(parts)
        parts += [T(f"r{i}", ()) for i in range(results)]
        op = Op(kind, range(n), range(n, n + results), options[0], options[1], version)
        names = [x for i, x in enumerate(operands) if i in fed]
        try:
            made = interpreter(model(parts, [op], fed, list(op.outputs)), "litert-reference")
            found = [run(made, [(self.reals.get(x) or self.counts[x])[s] for x in names]) for s in range(SAMPLES)]
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


def draw(rng: np.random.Generator, table: Mapping[str, Callable[[Drawing], object]]) -> File:
    """A file of 1 to 6 operators or a few more."""
    while True:
        d = Drawing(rng)
        wanted = d.integer(1, 6)
        for _ in range(6 * wanted):
            if len(d.ops) >= wanted:
                break
            with suppress(Refused):
                table[d.choice(list(table))](d)
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
