"""TFLite files as cases of a run, and what has to hold of them.

    import     qmlir takes the file or refuses it by a typed error
    values     the reference gives LiteRT's integers under the numerics of its kernels, with the functions of the C
               library that LiteRT calls; floats within ε
    float      a file of floats is the same when it is saved, and runs when it is written again

A file of floats is then quantized like any network, one of integers is quantized already: of both hold the checks of
checks.py that come after that.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

import qmlir
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import Runtime, follow
from tests.conformance import deviations
from tests.frontends.tflite.c_library import functions_of_the_c_library
from tests.frontends.tflite.files import T, interpreter, run
from tests.fuzz.checks import EPSILON, Checks, Outcome, Skipped, check, far, running
from tests.fuzz.graphs import Array
from tests.fuzz.options import Options, Shares, draw_options
from tests.fuzz.shrink import array_text, options_text, smaller, source
from tests.fuzz.tflite_drawing import File, draw, pruned
from tests.fuzz.tflite_operators import TABLE
from tests.fuzz.tflite_selection import COMPARISONS

NUMERICS = ("litert-reference", "litert-reference", "litert-reference", "litert-xnnpack", "litert-builtin", "default")
"""What a file of integers is imported to follow."""


@dataclass(frozen=True)
class TfliteCase:
    """A file and what is done with it."""

    file: File
    options: Options


def tflite_case(seed: int, number: int, shares: Shares) -> TfliteCase:
    """The file of a number, and its options."""
    rng = np.random.default_rng([seed, number, 1])
    file = draw(rng, TABLE)
    names = [t.name for t in file.tensors if t.data is None]
    options = draw_options(rng, names, shares)
    if file.quantized:
        machine = "quantized" if options.machine else ""
        options = Options(numerics=str(rng.choice(NUMERICS)), format=options.format, machine=machine)
    return TfliteCase(file, options)


@check.register
def _(case: TfliteCase) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="qmlir-fuzz-") as folder, np.errstate(all="ignore"):
        return TfliteChecks(case, Path(folder)).run()


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


INEXACT = {"HARD_SWISH", "ELU", "EXP", "COS", "SIN", "GELU", "LOG", "SQRT", "RSQRT", "LOGISTIC", "TANH",
           "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "DIV", "CONV_2D", "DEPTHWISE_CONV_2D",
           "FULLY_CONNECTED", "TRANSPOSE_CONV", "BATCH_MATMUL", "AVERAGE_POOL_2D", "MEAN", "SUM",
           "RESIZE_BILINEAR", "ADD_N", "ATAN2", "POW", "REDUCE_PROD", "CUMSUM", "L2_POOL_2D", "CONV_3D",
           "CONV_3D_TRANSPOSE", "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD"}  # fmt: skip
"""Operators whose last bits on floats differ between libraries."""

JUMPING = {*COMPARISONS, "ARG_MAX", "ARG_MIN", "TOPK_V2", "FLOOR", "CEIL", "ROUND", "SIGN", "CAST", "FLOOR_DIV",
           "FLOOR_MOD", "QUANTIZE", "UNIQUE", "BUCKETIZE", "FAKE_QUANT"}  # fmt: skip
"""Operators whose results jump: which of two floats is the greater, or the whole number below one."""


class TfliteChecks(Checks):
    """The checks of a TFLite file."""

    prefix = "tflite "

    def __init__(self, case: TfliteCase, folder: Path):
        super().__init__(case.options, folder, (f"tflite.{op.kind}" for op in case.file.ops))
        self.file = case.file
        self.outputs = [f"output {i}" for i in range(len(case.file.results))]

    def imported(self) -> None:
        """Imports the file and holds it to LiteRT."""
        numerics = self.options.numerics if self.file.quantized else "default"
        with self.step("import"):
            self.module = load_tflite(self.file.data())
            follow(self.module, numerics)
            if report := opaque_report(self.module):
                for kind in report:
                    self.outcome.refusals["tflite import", f"{kind.kind}: {kind.reason}"] += 1
                raise Skipped
        reference = qmlir.reference(self.module)
        names = [s.name for s in reference.signature.inputs]
        self.feeds = [dict(zip(names, sample, strict=True)) for sample in self.file.samples]
        kernels = numerics if numerics.startswith("litert") else "litert-reference"
        made = interpreter(self.file.data(), kernels)
        self.exact = [dict(zip(self.outputs, run(made, list(s)), strict=True)) for s in self.file.samples]
        with self.step("values"), functions_of_the_c_library():
            library = qmlir.reference(self.module)
            self._agrees(library, kernels, exact=kernels == numerics or not self.file.quantized)
        if not self.file.quantized:
            self._floats_are_kept(reference)

    def _agrees(self, reference: Any, kernels: str, *, exact: bool) -> None:
        """Holds the reference to LiteRT: shapes and types, and the values if its kernels are followed."""
        exact = exact and not self.file.kinds & deviating(kernels, self.file.format) and not self._jumps()
        for feed, wanted in zip(self.feeds, self.exact, strict=True):
            for name, got in zip(self.outputs, reference.run(feed), strict=True):
                want = wanted[name]
                if (got.shape, got.dtype) != (want.shape, want.dtype):
                    self.find("values", "type", f"{name}: {got.dtype} {got.shape} for {want.dtype} {want.shape}")
                    return
                if exact and not self._equal(got, want):
                    self.find("values", self._culprit(kernels), f"{name}: {far(got, want)}")
                    return

    def _jumps(self) -> bool:
        """Whether last bits of floats, which differ between libraries, decide what an operator yields."""
        kinds = [op.kind for op in self.file.ops]
        first = next((i for i, kind in enumerate(kinds) if kind in INEXACT), len(kinds))
        return not self.file.quantized and bool({*kinds[first:]} & JUMPING)

    def _equal(self, got: Array, want: Array) -> bool:
        if want.dtype.kind != "f":
            floats = "DEQUANTIZE" in self.file.kinds
            return bool(np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0) <= floats)
        most = np.abs(want).max(initial=0)
        return bool(np.all((got == want) | (np.abs(got - want) <= 20 * EPSILON * max(most, 1e-3))))

    def _culprit(self, kernels: str) -> str:
        """The first operator after which the reference and LiteRT differ."""
        for op in self.file.ops:
            part = pruned(replace(self.file, results=tuple(op.outputs)))
            module = load_tflite(part.data())
            follow(module, cast(Runtime, kernels))
            reference, made = qmlir.reference(module), interpreter(part.data(), kernels)
            names = [s.name for s in reference.signature.inputs]
            for sample in part.samples:
                found = reference.run(dict(zip(names, sample, strict=True)))
                if not all(map(self._equal, found, run(made, list(sample)))):
                    return op.kind
        return "the whole"

    def _floats_are_kept(self, reference: Any) -> None:
        """Saved, a network of floats is the same; LiteRT runs the file that is written of it."""
        path, out = self.folder / "float.mlir", self.folder / "float.tflite"
        with self.step("float saved"):
            qmlir.save(self.module, path)
            self.same("float saved", qmlir.reference(qmlir.load(path)), reference)
        if self.options.machine == "float":
            with self.step("float machine"):
                self.same("float machine", qmlir.compile(self.module), reference)
        if self.options.format == "tflite":
            with self.step("float export"):
                qmlir.export(self.module, out, format="tflite")
                running(out)

    def quantize(self) -> None:
        """Quantizes a file of floats; one of integers is quantized already."""
        if not self.file.quantized:
            super().quantize()
            return
        self.quantized, self.reference = self.module, qmlir.reference(self.module)


def deviating(numerics: str, format: str) -> set[str]:
    """The operators whose results differ from those of LiteRT's kernels in a format, for reasons that are listed."""
    return {name.split()[0] for known, name, kind in deviations.read() if (known, kind) == (numerics, format)}
