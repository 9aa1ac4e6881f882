"""Small TFLite files of one operator each, run by LiteRT's kernels and by qmlir under the numerics that follow them.

    subject     an operator, its options and a way of storing numbers; each draw has other scales and zero points
    numerics    litert-reference, litert-xnnpack, litert-builtin against the resolver of that name, default against
                LiteRT's own default, from which one step is nothing
    finding     outputs compared, how many differ, and by how many steps at most; a float's step is ε of the largest

What may differ is in `deviations.yaml` with its reason (deviations.py).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np

import qmlir
from qmlir.errors import QmlirError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import Runtime, follow
from tests.conformance.isolation import Died, isolated
from tests.frontends.tflite.c_library import functions_of_the_c_library
from tests.frontends.tflite.cases import CASES
from tests.frontends.tflite.files import RESOLVERS, interpreter, run
from tests.frontends.tflite.networks import CONTRACTIONS, contraction

Array = np.ndarray
Random = np.random.Generator

ORACLES = {"default": "litert-xnnpack", **{n: n for n in RESOLVERS}}
"""Numerics → the kernels that it is compared with."""

NUMERICS = tuple(n for n in ORACLES if n in get_args(Runtime))

ALLOWED = {"default": 1}
"""Steps that need no reason; none in other numerics."""

EPSILON = 1e-5
"""What floats may differ by, in parts of the largest: what differs more differs by two steps or more."""

INPUTS = 16
"""Inputs of each file."""

SECONDS, MEMORY = 120, 4 << 30


@dataclass(frozen=True)
class Subject:
    """An operator in one way of storing numbers.

    build  draw → file
    data   draw → inputs
    """

    operator: str
    label: str
    format: str
    build: Callable[[int], bytes]
    data: Callable[[Random, int], list[Array]]

    @property
    def name(self) -> str:
        return f"{self.operator} {self.label}".strip()


@dataclass(frozen=True)
class Finding:
    """What became of a subject in one numerics: counts, or why there are none.

    most     the largest difference in steps
    refused  qmlir's reason for not computing it
    wrong    a defect: the CPU differs from the reference, a traceback, another shape
    """

    compared: int = 0
    differing: int = 0
    most: int = 0
    refused: str = ""
    wrong: str = ""

    def __add__(self, other: "Finding") -> "Finding":
        return Finding(
            self.compared + other.compared, self.differing + other.differing, max(self.most, other.most),
            self.refused or other.refused, self.wrong or other.wrong,
        )  # fmt: skip


Findings = dict[str, Finding]
"""By numerics; one that LiteRT has no kernel for is left out."""


def subjects() -> Iterator[Subject]:
    """Everything that is compared."""
    for case in CASES:
        for format in case.formats:
            yield Subject(case.kind, case.label, format, partial(case.build, format), partial(case.data, format))
    yield from _contractions()


WEIGHTS: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]] = {
    "float32": [("", {})],
    "int8": [("", {"per_channel": True}), ("per tensor", {}), ("int4 weights", {"per_channel": True, "nibbles": True})],
    "uint8": [("", {})],
    "int16": [("", {"per_channel": True}), ("int32 bias", {"per_channel": True, "bias": np.int32})],
}
"""Format → what is called how of a contraction."""


def _contractions() -> Iterator[Subject]:
    for kind in CONTRACTIONS:
        for format, variants in WEIGHTS.items():
            for label, options in variants:
                if kind in ("TRANSPOSE_CONV", "DEPTHWISE_CONV_2D") and "bias" in options:
                    continue  # the first has none here, the second none of 32 bits
                yield Subject(
                    kind, label, format, partial(_contraction, kind, format, options), partial(_image, kind, format)
                )


def _contraction(kind: str, format: str, options: Mapping[str, Any], draw: int) -> bytes:
    return contraction(kind, format, draw=draw, **options)


def _image(kind: str, format: str, random: Random, draw: int) -> list[Array]:
    shape = CONTRACTIONS[kind][0]
    if format == "float32":
        return [random.standard_normal(shape).astype(np.float32)]
    limits = np.iinfo(format)
    return [random.integers(limits.min, limits.max + 1, shape).astype(format)]


def survey(chosen: Sequence[Subject], draws: Sequence[int], *, machine: bool) -> list[Findings]:
    """What becomes of subjects, each in a process of its own.

    Args:
        chosen: The subjects.
        draws: Numbers of draws; 0 is the parameters that the tests spell out.
        machine: Whether the CPU is held to the reference too, on the first draw.
    """

    def work(subject: Subject) -> Findings:
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        total: Findings = {}
        for draw in draws:
            for numerics, finding in examine(subject, draw, machine=machine and draw == draws[0]):
                total[numerics] = total.get(numerics, Finding()) + finding
        return total

    found = dict(isolated(work, chosen, seconds=SECONDS, memory=MEMORY))
    return [_survived(found[i]) for i in range(len(chosen))]


def _survived(result: Findings | Died) -> Findings:
    return {n: Finding(wrong=result.why) for n in NUMERICS} if isinstance(result, Died) else result


def examine(subject: Subject, draw: int, *, machine: bool) -> Iterator[tuple[str, Finding]]:
    """The finding of each numerics for one file."""
    data, random = subject.build(draw), np.random.default_rng(draw)
    inputs = [subject.data(random, draw) for _ in range(INPUTS)]
    wanted: dict[str, list[list[Array]] | None] = {}
    for numerics in NUMERICS:
        oracle = ORACLES[numerics]
        if oracle not in wanted:
            wanted[oracle] = _litert(data, oracle, inputs)
        if (results := wanted[oracle]) is not None:
            yield numerics, _compared(data, numerics, inputs, results, machine=machine)


def _litert(data: bytes, numerics: str, inputs: Iterable[list[Array]]) -> list[list[Array]] | None:
    """LiteRT's outputs; None where it has no kernel."""
    try:
        made = interpreter(data, numerics)
        return [run(made, arrays) for arrays in inputs]
    except (RuntimeError, ValueError):
        return None


@functions_of_the_c_library()
def _compared(
    data: bytes, numerics: str, inputs: Sequence[list[Array]], wanted: Sequence[list[Array]], *, machine: bool
) -> Finding:
    try:
        module = load_tflite(data)
        follow(module, numerics)
        refuse_opaque(module, "it")
        meaning = qmlir.reference(module)
        computed = qmlir.compile(module) if machine else None
    except QmlirError as error:
        return Finding(refused=str(error))
    except Exception as error:
        return Finding(wrong=f"{type(error).__name__}: {error}")
    names, total = [s.name for s in meaning.signature.inputs], Finding()
    for arrays, results in zip(inputs, wanted, strict=True):
        given = dict(zip(names, arrays, strict=True))
        found = meaning.run(given)
        if computed is not None and not _same(computed.run(given), found):
            return Finding(wrong="the CPU differs from the reference")
        for got, want in zip(found, results, strict=True):
            total += difference(got, want)
    return total


def _same(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(ours, theirs, strict=True))


def difference(got: Array, want: Array) -> Finding:
    """How two outputs compare; one truth value is two steps from the other."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return Finding(wrong=f"{got.dtype} {got.shape} for {want.dtype} {want.shape}")
    if want.dtype.kind != "f":
        apart = np.abs(want.astype(np.int64) - got.astype(np.int64)) * (2 if want.dtype.kind == "b" else 1)
        return Finding(want.size, int(np.count_nonzero(apart)), int(apart.max(initial=0)))
    most = np.abs(np.where(np.isfinite(want), want, 0)).max(initial=0) or 1.0
    both = (want == got) | (np.isnan(want) & np.isnan(got))
    apart = np.where(both, 0, np.abs(want.astype(np.float64) - got) / most)
    apart = np.where(np.isnan(apart), 1 / EPSILON, apart)
    steps = np.where(apart > EPSILON, np.ceil(np.minimum(apart / EPSILON, 1 << 31)), 0)
    return Finding(want.size, int(np.count_nonzero(steps)), int(steps.max(initial=0)))
