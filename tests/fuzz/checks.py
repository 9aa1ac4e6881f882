"""What has to hold of a network under options: each check, and the findings of those that fail.

    import     qmlir takes the model or refuses it by a typed error
    float      the reference's values, shapes and types are onnxruntime's, also of the simplified network
    quantize   a quantized network or a typed refusal
    types      results of the quantized network have the float network's shapes and types
    saved      the module that is saved and read again gives the same bits
    machine    the CPU gives the reference's bits
    export     the file runs, and gives what docs/onnx.md and docs/tflite.md say of its format, with onnxruntime's
               optimizations off and as they are by default
    again      the file, read by qmlir, gives the bits of the network that it was written of
    reported   a result below half of what its bits allow is warned of, if there were data to measure it on
    collapse   the quantized network is as good as its bits allow (expectation.py)
    device     the device gives the reference's bits (devices.py)

Whatever raises anything but a `QmlirError` is a finding under the name of the step it was in.
"""

import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import main_function, to_integers
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import NNOp, is_float
from qmlir.dialects.nn.contraction import ContractionOp
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.errors import QmlirError, QmlirWarning, QualityWarning
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.facts import QUANTIZATION
from qmlir.ir.signature import Signature, signature_of
from qmlir.policies.runtimes import follow
from qmlir.profiles.profile import Profile
from qmlir.stages import OBSERVE
from qmlir.transforms.quantize.ranges.observers import by_tensor, observed_keys, observed_shapes, observers
from tests.backends.onnx.stepwise import FloatErrors, compare
from tests.backends.tflite.runtime import LiteRT, computes_in_floats
from tests.frontends.tflite.c_library import functions_of_the_c_library
from tests.fuzz.expectation import DRAWS, MORE_DRAWS, TINY, Rounded, is_expectable, rounded
from tests.fuzz.graphs import Array, Graph, Node
from tests.fuzz.options import Options
from tests.fuzz.oracle import Oracle, session

EPSILON = 1e-5
"""What floats may differ by, in parts of the largest, beside what noise in the last places makes of them."""

NOISE = 3e-7

APPROXIMATE = {"Sigmoid", "Tanh", "LSTM", "GRU", "RNN", "Elu", "Selu", "Celu"}
"""Operators that onnxruntime computes by quotients of polynomials, or as exp(x) − 1 in float32, off by up to 1.8e-7
however small the result is."""

NOISE_OF_APPROXIMATE = 2e-8
"""What is added to their noise: a 30th of what floats may then differ by, three such errors."""

FOURIER = {"DFT", "STFT"}
"""Operators whose results onnxruntime has off by a share of the largest, sums that are 0 among them."""

NOISY = 48
"""Draws of such noise: what lies on a tie, and goes the other way in a third of the draws, goes so in one of them."""


@dataclass(frozen=True)
class Case:
    """A network and what is done with it."""

    graph: Graph
    options: Options


@dataclass(frozen=True)
class Finding:
    """A check that fails.

    check   its name
    kind    what findings of one cause have in common: an error's type and place, or the check's own word
    detail  what was found
    """

    check: str
    kind: str
    detail: str

    @property
    def key(self) -> tuple[str, str]:
        """Equal for findings that are taken to have one cause."""
        return self.check, self.kind


@dataclass
class Outcome:
    """What became of a case.

    done       names of the checks that were made
    refusals   (step, reason) of what was refused
    findings   what failed
    operators  of the network
    """

    done: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    findings: list[Finding] = field(default_factory=list[Finding])
    operators: Counter[str] = field(default_factory=Counter[str])


NEAR = 1.0
"""Decibels within which the limit of a warning is not told from what is measured, of what is simplified and rounded."""

REFUSING = {"import", "profile", "quantize", "export", "device", "network"}
"""Steps that may be refused with a reason: what was read, once it is, is evaluated, saved and simplified."""


class Skipped(Exception):
    """A step without a result: what needs it is left out."""


class Checks:
    """The checks of one case, which share what they computed.

    A subclass imports the network: `imported` sets the attributes below and holds them to what the model's own runtime
    computes.

    module   the network as imported
    feeds    the inputs of each sample by name
    outputs  names
    exact    the outputs of each sample by name, and whatever else the model's own runtime computed
    """

    prefix = ""
    """What names of checks begin with."""

    module: ModuleOp
    feeds: list[dict[str, Array]]
    outputs: Sequence[str]
    exact: list[dict[str, Array]]

    def __init__(self, options: Options, folder: Path, operators: Iterable[str]):
        self.options, self.folder = options, folder
        self.outcome = Outcome(operators=Counter(operators))

    # -- bookkeeping ------------------------------------------------------------------------------------------

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step: typed errors are counted where a refusal is an answer; all others are findings, and end the case."""
        name = self.prefix + name
        try:
            yield
        except Skipped:
            raise
        except QmlirError as error:
            if not any(part in REFUSING for part in name.split()):
                self._found(name, f"{type(error).__name__}: {reason(error)}", str(error)[:500])
                raise Skipped from None
            self.outcome.refusals[name, reason(error)] += 1
            raise Skipped from None
        except Exception as error:
            self._found(name, place(error), f"{type(error).__name__}: {str(error)[:500]}")
            raise Skipped from None
        self.outcome.done[name] += 1

    def find(self, check: str, kind: str, detail: str) -> None:
        """Enters a finding of a check."""
        self._found(self.prefix + check, kind, detail)

    def _found(self, check: str, kind: str, detail: str) -> None:
        self.outcome.findings.append(Finding(check, kind, detail))

    def run(self) -> Outcome:
        """All checks."""
        for part in (self.imported, self.quantize):
            try:
                part()
            except Skipped:
                return self.outcome
        for check in (self._reported, self._saved, self._machine, self.collapse, self._export, self._device):
            try:
                check()
            except Skipped:
                continue
        return self.outcome

    def imported(self) -> None:
        """Imports the network."""
        raise NotImplementedError

    # -- integers ---------------------------------------------------------------------------------------------

    def quantize(self) -> None:
        """Quantizes the network."""
        with self.step("profile"):
            profile = learnt(self.module, self.feeds, self.options.bins)
        module = self.module
        if self.options.numerics != "default":
            module = module.clone()
            follow(module, self.options.numerics)
        self._quantize(module, profile)
        with self.step("reference"):
            self.reference = qmlir.reference(self.quantized)
            self.results = [self.reference.run(feed) for feed in self.feeds]
        for name, got, want in zip(
            self.outputs, self.results[0], (self.exact[0][n] for n in self.outputs), strict=True
        ):
            if (got.shape, got.dtype) != (want.shape, want.dtype):
                self.find("types", "type", f"{name}: {got.dtype} {got.shape} for {want.dtype} {want.shape}")
        self.outcome.done["types"] += 1

    def _quantize(self, module: ModuleOp, profile: Profile) -> None:
        """Quantizes under the options; under easier ones where these are refused."""
        while True:
            try:
                with self.step("quantize"):
                    self._quantize_once(module, profile)
                return
            except Skipped:
                if self.outcome.findings or self.options.device or not (easier := self.options.easier()):
                    raise
                self.options = easier[0]

    def _quantize_once(self, module: ModuleOp, profile: Profile) -> None:
        arguments: dict[str, Any] = {"target": self.options.device} if self.options.device else self.options.arguments()
        data = self.feeds if self.options.data else None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.quantized = qmlir.quantize(module, profile, data=data, **arguments)
        said = [w for w in caught if issubclass(w.category, QmlirWarning)]
        self.warned = [str(w.message) for w in said if not issubclass(w.category, QualityWarning)]
        self.blamed = len(self.warned) < len(said)
        for other in [w for w in caught if not issubclass(w.category, QmlirWarning)][:1]:
            text = str(other.message)
            self.find("warning", f"{other.category.__name__}: {text[:60]}", f"{other.filename}: {text}")

    def _reported(self) -> None:
        """Expects a warning of an output that has less than half of the decibels that its bits allow, on the data.

        What is exact the float network says, which `imported` holds to the model's own runtime: of a hyperbolic tangent
        of 1e-8 onnxruntime has no digit.
        """
        if not self.options.data or self.options.device:
            return
        floats = qmlir.reference(self.module)
        truth = [floats.run(feed) for feed in self.feeds]
        # A model may store a tensor in fewer bits itself.
        casts = any(isinstance(op, QuantizeCastOp) for op in self.module.walk())
        stored = stored_bits(self.quantized) if casts else [32] * len(self.outputs)
        for index, name in enumerate(self.outputs):
            bits = min(self.options.activation_bits, self.options.weight_bits, stored[index])
            exact, found = (
                np.stack([np.asarray(array, np.float64) for array in arrays])
                for arrays in ([t[index] for t in truth], [r[index] for r in self.results])
            )
            if truth[0][index].dtype.kind != "f" or not exact.any() or not np.isfinite(exact).all():
                continue
            step = (exact.max(initial=0) - exact.min(initial=0)) / (2**bits - 1)
            allowed = 10 * np.log10((exact**2).mean() / (step**2 / 12))
            reached = 10 * np.log10((exact**2).sum() / max(((exact - found) ** 2).sum(), 1e-300))
            if reached < allowed / 2 - NEAR and not self.blamed:
                self.find("reported", "silent", f"{name}: {reached:.1f} dB of {allowed:.1f}, and no warning")
        self.outcome.done["reported"] += 1

    def same(self, check: str, ours: Any, reference: Any) -> None:
        """Holds a network to the reference, bit for bit."""
        for feed in self.feeds:
            for name, got, want in zip(self.outputs, ours.run(feed), reference.run(feed), strict=True):
                if (got.shape, got.dtype) != (want.shape, want.dtype):
                    self.find(check, "type", f"{name}: {got.dtype} {got.shape} for {want.dtype} {want.shape}")
                    return
                if not np.array_equal(got, want, equal_nan=got.dtype.kind == "f"):
                    self.find(check, "bits", f"{name}: {far(got, want)}")
                    return

    def _saved(self) -> None:
        path = self.folder / "saved.mlir"
        with self.step("saved"):
            qmlir.save(self.quantized, path)
            self.same("saved", qmlir.reference(qmlir.load(path)), self.reference)

    def _machine(self) -> None:
        if self.options.machine == "quantized" and not self.options.device:
            with self.step("machine"):
                self.same("machine", qmlir.compile(self.quantized), self.reference)

    def collapse(self) -> None:
        """Holds the quantized network to what its bits allow, if that is known."""

    # -- files ------------------------------------------------------------------------------------------------

    def _export(self) -> None:
        if not self.options.format or self.options.device:
            return
        module = self.quantized.clone()
        follow(module, EXPORT_NUMERICS[self.options.format])
        with self.step(f"export {self.options.format}"):
            if self.options.format == "tflite":
                with functions_of_the_c_library():
                    self._exported_tflite(module)
            else:
                self._exported_onnx(module, self.options.format)

    def _exported_onnx(self, module: ModuleOp, format: str) -> None:
        path, check = self.folder / "exported.onnx", f"export {format}"
        if format == "onnx-qdq":
            qmlir.export(module, path, format=format, activations="kept")
            self._optimized(path, check, exact=False)
        qmlir.export(module, path, format=format)
        onnx.checker.check_model(str(path), full_check=True)
        self._optimized(path, check, exact=format == "onnx-integer" and not has_float_parts(module))
        shown = self.folder / "shown.onnx"
        steps = compare(module, shown, self.feeds, format, FloatErrors(NOISE, TINY))
        # onnx-integer is exact between integers; onnxruntime computes float parts in f32, which rounds otherwise.
        # Functions of 16 bits lie on lines between breakpoints, up to 1.5 steps from the number that is rounded there.
        lines = any(isinstance(op, qint.InterpolatedLookupOp) for op in to_integers(module).walk())
        if steps.most > (0 if format == "onnx-integer" and not has_float_parts(module) else 1 + lines):
            self.find(check, "steps", f"{steps}")
        with self.step(f"again {format}"):
            module = module.clone()
            # A QuantizeLinear divides in float32; onnx-integer spells each cast out as it divides itself.
            for cast in [o for o in module.walk() if isinstance(o, QuantizeCastOp) and format != "onnx-integer"]:
                QUANTIZATION.put(cast, "float32")
            again = qmlir.load(path, numerics=EXPORT_NUMERICS[format])
            if (
                not has_float_parts(module)
                and not attends(module)
                and not rounds_floats(again)
                and averages(again) == averages(module)
            ):
                self.same(f"again {format}", qmlir.reference(again), qmlir.reference(module))

    def _optimized(self, path: Path, check: str, *, exact: bool) -> None:
        """Runs a file with and without onnxruntime's default optimizations.

        Args:
            path: The file.
            check: The name of the check.
            exact: Whether both have the same bits.
        """
        sessions = [session(str(path), optimized=optimized) for optimized in (False, True)]
        for feed in self.feeds:
            given = {i.name: feed[i.name] for i in sessions[0].get_inputs()}
            plain, optimized = ([np.asarray(y) for y in each.run(None, given)] for each in sessions)
            for name, got, want in zip(self.outputs, optimized, plain, strict=True):
                if (got.shape, got.dtype) != (want.shape, want.dtype):
                    self.find(check, "optimized type", f"{name}: {got.dtype} {got.shape} for {want.dtype} {want.shape}")
                elif exact and not np.array_equal(got, want, equal_nan=got.dtype.kind == "f"):
                    self.find(check, "optimized bits", f"{name}: {far(got, want)}")

    def _exported_tflite(self, module: ModuleOp) -> None:
        path = self.folder / "exported.tflite"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            qmlir.export(module, path, format="tflite")
            theirs, numerics = running(path)
        follow(module, numerics)
        ours = qmlir.reference(module)
        order = list(self.feeds[0])
        exact = not (has_float_parts(module) or attends(module) or rounds_twice(module) or computes_in_floats(path))
        for feed in self.feeds:
            for name, got, want in zip(self.outputs, theirs.run([feed[n] for n in order]), ours.run(feed), strict=True):
                if (got.shape, got.dtype) != (want.shape, want.dtype):
                    self.find("export tflite", "type", f"{name}: {got.dtype} {got.shape} for {want.dtype} {want.shape}")
                    return
                if exact and not np.array_equal(got, want, equal_nan=got.dtype.kind == "f"):
                    self.find("export tflite", "bits", f"{name}: {far(got, want)}")
                    return
        if exact:
            with self.step("again tflite"):
                self.same("again tflite", qmlir.reference(qmlir.load(path, numerics=numerics)), ours)

    # -- devices ----------------------------------------------------------------------------------------------

    def _device(self) -> None:
        if not self.options.device:
            return
        with self.step(f"device {self.options.device}"):
            self.same(
                f"device {self.options.device}",
                qmlir.compile(self.quantized, target=self.options.device),
                self.reference,
            )


class OnnxChecks(Checks):
    """The checks of an ONNX model."""

    signature: Signature

    def __init__(self, case: Case, folder: Path):
        super().__init__(case.options, folder, (n.key for n in case.graph.nodes))
        self.graph = case.graph

    def imported(self) -> None:
        """Imports the model and holds it, and what is simplified of it, to onnxruntime."""
        with self.step("import"):
            module = load_onnx(self.graph.model())
            module.verify()
            if report := opaque_report(module):
                for kind in report:
                    self.outcome.refusals["import", f"{kind.kind}: {kind.reason}"] += 1
                raise Skipped
        self.module, self.signature = module, signature_of(main_function(module))
        self.outputs = [*self.graph.outputs, *(self._named(c.number) for c in self.signature.counts)]
        self.oracle = Oracle(self.graph)
        self.feeds = self.graph.feeds()
        self.exact = [self.oracle.run(feed) for feed in self.feeds]
        reference = qmlir.reference(module)
        self._know_empty_shapes(reference)
        self._know_what_counts(reference)
        with self.step("float"):
            self._agrees("float", reference)
        with self.step("simplify"):
            self.simple = qmlir.Pipeline("simplify")(module)
            reference = qmlir.reference(self.simple)
            self._agrees("simplify", reference)
        if self.options.machine == "float":
            with self.step("machine"):
                self.same("machine", qmlir.compile(self.simple), reference)

    def _know_empty_shapes(self, reference: Any) -> None:
        """Takes the shape of what no run of a loop yields from the reference: onnxruntime has 0 for sizes in a run."""
        if not any(node.operator == "Loop" for node in self.graph.nodes):
            return
        for feed, exact in zip(self.feeds, self.exact, strict=True):
            for name, got in zip(self.outputs, reference.run(feed), strict=True):
                if name in exact and got.size == exact[name].size == 0 and got.ndim == exact[name].ndim:
                    exact[name] = exact[name].reshape(got.shape)

    def _know_what_counts(self, reference: Any) -> None:
        """Takes elements that do not count from the reference: onnxruntime's results end before them.

        How many count is a result of qmlir's network, and of onnxruntime the length of an axis.
        """
        for feed, exact in zip(self.feeds, self.exact, strict=True) if self.signature.counts else ():
            results = reference.run(feed)
            for count in self.signature.counts:
                name, got = self._named(count.output), results[count.output]
                length = exact[name].shape[count.axis]
                exact[self._named(count.number)] = np.array(length)
                behind = np.split(got, [length], axis=count.axis)[1]
                exact[name] = np.concatenate([exact[name], behind.astype(exact[name].dtype)], axis=count.axis)

    def _named(self, result: int) -> str:
        return self.signature.outputs[result].name

    def _agrees(self, check: str, reference: Any) -> None:
        """Holds a float network to onnxruntime."""
        noisy: list[list[dict[str, Array]]] | None = None
        for i, (feed, exact) in enumerate(zip(self.feeds, self.exact, strict=True)):
            for name, got in zip(self.outputs, reference.run(feed), strict=True):
                want = exact[name]
                if (got.shape, got.dtype) != (want.shape, want.dtype):
                    self.find(check, "type", f"{name}: {got.dtype} {got.shape} for {want.dtype} {want.shape}")
                    return
                if near(got, want, 0.0):
                    continue
                noisy = noisy or ([] if self.signature.counts else self._noisy())  # with noise, no element is 0
                room = np.max([np.abs(_reals(draw[i][name]) - _reals(want)) for draw in noisy], axis=0, initial=0.0)
                if not near(got, want, np.nan_to_num(30 * room, nan=np.inf)):
                    self.find(check, "values", f"{name}: {far(got, want)}")
                    return

    def _noisy(self) -> list[list[dict[str, Array]]]:
        """What onnxruntime computes where every tensor has noise in its last places."""
        random = np.random.default_rng(1)
        spelled = Oracle(self.graph, spells=True)
        approximate, fourier = (
            {n for s in spelled.sessions if s.node.operator in operators for n in s.outputs}
            for operators in (APPROXIMATE, FOURIER)
        )

        halves = {n for s in spelled.sessions if rounds_to_halves(s.node) for n in s.outputs}

        def change(name: str, value: Array) -> Array:
            amount = 1e-3 if value.dtype == np.float16 or name in halves else NOISE
            most = np.abs(value.astype(np.float64)).max(initial=0)
            share = 1.0 if name in fourier else 0.1
            size = amount * (np.abs(value) + share * most) + (NOISE_OF_APPROXIMATE if name in approximate else 0.0)
            return np.asarray(value + random.uniform(-1, 1, value.shape) * size, value.dtype)

        with np.errstate(all="ignore"):
            return [[spelled.run(feed, change) for feed in self.feeds] for _ in range(NOISY)]

    # -- accuracy ----------------------------------------------------------------------------------------------

    def collapse(self) -> None:
        if self.options.device or self.warned or self.outcome.findings:
            return
        if self.signature.counts:
            return  # which elements of a computed tensor are 0 no few draws tell
        if not is_expectable(self.graph, self.options, self.exact):
            return
        allowed = self._rounded(DRAWS)
        for index, name in enumerate(self.graph.outputs):
            if self.exact[0][name].dtype.kind != "f" or not self.exact[0][name].size:
                continue
            for part in parts_of(self.exact[0][name].shape):
                self._not_collapsed(allowed, index, name, part)
        self.outcome.done["collapse"] += 1

    def _rounded(self, draws: int) -> Rounded:
        with np.errstate(all="ignore"):
            return rounded(self.graph, self.oracle, self.options, self.exact, draws)

    def _not_collapsed(self, allowed: Rounded, index: int, name: str, part: tuple[Any, ...]) -> None:
        found = [np.asarray(result[index]) for result in self.results]
        if allowed.lost(name, part, found) is None:
            return
        if (lost := self._rounded(MORE_DRAWS).lost(name, part, found)) is not None:
            reached, expected = lost
            if self.options.weight_levels == "codebook" and np.isinf(expected):
                return  # a codebook need not have what even steps hold exactly
            behind = replace(self.graph, outputs=(name,)).without_unused()
            kinds = "-".join(sorted({n.operator for n in behind.nodes}))
            where = "the whole" if not part else f"channel {part[-1]}"
            self.find("collapse", kinds, f"{name}, {where}: {reached:.1f} dB where rounding leaves {expected:.1f}")


EXPORT_NUMERICS = {
    "onnx-qdq": "default", "onnx-qoperator": "onnxruntime-vnni", "onnx-integer": "default",
    "tflite": "litert-reference",
}  # fmt: skip
"""Format → the rounding under which it promises bits."""


@singledispatch
def check(case: Case) -> Outcome:
    """Makes all checks of a case; tflite.py has cases of its own."""
    with tempfile.TemporaryDirectory(prefix="qmlir-fuzz-") as folder, np.errstate(all="ignore"):
        return OnnxChecks(case, Path(folder)).run()


def running(path: Path) -> tuple[LiteRT, str]:
    """A file with LiteRT's reference kernels, or XNNPACK's where these lack one, such as ELU; whose rounding it is."""
    try:
        return LiteRT(path), "litert-reference"
    except ValueError:
        return LiteRT(path, reference=False), "litert-xnnpack"


def parts_of(shape: Sequence[int]) -> list[tuple[Any, ...]]:
    """An output as a whole, and its channels where they have 4 elements or more."""
    channels = [(slice(None), c) for c in range(shape[1])] if len(shape) > 1 and shape[1] > 1 else []
    large = int(np.prod(shape)) >= 4 * shape[1] if channels else False
    return [(), *(channels if large else [])]


def has_float_parts(module: ModuleOp) -> bool:
    """Whether something is computed on floats."""
    operations = main_function(module).body.block.ops
    return any(is_float(operand) for op in operations if isinstance(op, NNOp) for operand in op.data_operands())


def stored_bits(module: ModuleOp) -> list[int]:
    """The bits in which the outputs of a network are stored before they become floats; 32 for floats."""
    end = main_function(module).body.block.last_op
    assert end is not None
    widths: list[int] = []
    for value in end.operands:
        owner = value.owner
        type = quantized_element(owner.operands[0].type if isinstance(owner, DequantizeCastOp) else value.type)
        widths.append(type.storage_width if isinstance(type, UniformType) else 32)
    return widths


def attends(module: ModuleOp) -> bool:
    """Whether a network attends; files have a softmax for it, whose probabilities are rounded, and a product."""
    return any(isinstance(op, nn.AttendOp) for op in module.walk())


def rounds_twice(module: ModuleOp) -> bool:
    """Whether a layer of 16-bit data has a result of bytes, which passes through 16 bits in TFLite."""
    layers = [op for op in main_function(module).body.block.ops if isinstance(op, ContractionOp)]
    widths = [
        [
            t.storage_width
            for v in (op.operands[0], op.results[0])
            if isinstance(t := quantized_element(v.type), UniformType)
        ]
        for op in layers
    ]
    return any(width[0] > width[-1] for width in widths if width)


def rounds_floats(module: ModuleOp) -> bool:
    """Whether averages, softmaxes or functions stay on floats, where integers round otherwise near a tie.

    A QuantizeLinear rounds averages half to even, integers round half away from zero; an exponential is off in its last
    place. So is what lies between a DequantizeLinear and a Clip, which the export of fewer bits than a type has writes.
    """
    kinds = (nn.AveragePool2DOp, nn.GlobalAveragePoolOp, nn.ReduceMeanOp, nn.SoftmaxOp, FunctionOp)
    operations = main_function(to_integers(module)).body.block.ops
    return any(is_float(op.operands[0]) for op in operations if isinstance(op, kinds))


def averages(module: ModuleOp) -> int:
    """How many averages of stored integers a network has, which round halves away from zero.

    An average of a Clip's result, whose type has fewer integers, is a convolution in the network that is read of a
    file, and rounds as onnxruntime does.
    """
    return sum(isinstance(op, qint.AveragePool2DOp) for op in main_function(to_integers(module)).body.block.ops)


def learnt(module: ModuleOp, feeds: Sequence[Mapping[str, Array]], bins: int) -> Profile:
    """A profile as `qmlir.profile` learns it, by the reference: compiling takes longer than all else."""
    observed = qmlir.Pipeline(*OBSERVE)(module)
    network = main_function(observed)
    taps = observers(network)
    shapes = observed_shapes(network)
    if not shapes:
        raise QmlirError("no float tensors")
    found = Profile.empty(shapes, bins, keys=observed_keys(network))
    reference = qmlir.reference(qmlir.Pipeline("observers-to-results")(observed))
    for feed in feeds:
        found.update(by_tensor([tap.tensor.data for tap in taps], reference.run(feed)[-len(taps) :]))
    return found


def rounds_to_halves(node: Node) -> bool:
    """Whether a branch or a body of a node casts to halves, between which qmlir's networks do not round."""
    inside = [each for a in node.attributes.values() if isinstance(a, onnx.GraphProto) for each in a.node]
    casts = (each for each in inside if each.op_type == "Cast")
    to_halves = any(a.i == onnx.TensorProto.FLOAT16 for each in casts for a in each.attribute if a.name == "to")
    return to_halves or any(rounds_to_halves(Node.of(each)) for each in inside)


def _reals(values: Array) -> Array:
    return np.asarray(values, np.float64)


def near(got: Array, want: Array, room: Any) -> bool:
    """Whether two arrays are equal, floats within ε of the largest and some room for each element."""
    if want.dtype.kind != "f":
        return bool(np.all((got == want) | (np.asarray(room) > 0)))
    finite = np.isfinite(want)
    most = np.abs(want[finite].astype(np.float64)).max(initial=0)
    epsilon = 2e-3 if want.dtype == np.float16 else EPSILON
    least = np.finfo(want.dtype).smallest_subnormal  # that of a half is 2⁻²⁴, too
    with np.errstate(all="ignore"):
        apart = np.abs(_reals(got) - _reals(want))
    equal = (got == want) | (np.isnan(got) & np.isnan(want))
    return bool(np.all(equal | (apart <= epsilon * most + TINY + least + room)))


def far(got: Array, want: Array) -> str:
    """In words, how far two arrays are apart."""
    different = ~((got == want) | ((got != got) & (want != want)))
    if not different.any():
        return "equal"
    with np.errstate(all="ignore"):
        apart = np.where(different, np.abs(_reals(got) - _reals(want)), 0)
    at = np.unravel_index(int(np.argmax(np.nan_to_num(apart, nan=np.inf))), apart.shape)
    return f"{int(different.sum())} of {want.size} differ, {got[at]!r} for {want[at]!r} at {tuple(map(int, at))}"


def reason(error: QmlirError) -> str:
    """What a typed error needs, without names and numbers."""
    text = "".join("#" if c.isdigit() else c for c in error.need)
    return text[:110]


def place(error: BaseException) -> str:
    """The type of an error and the innermost line of qmlir that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/qmlir/" in f.filename and "/tests/" not in f.filename.rpartition("/qmlir/")[2]]
    if not own:
        return f"{type(error).__name__} in {Path(frames[-1].filename).name} {frames[-1].name}"
    return f"{type(error).__name__} in {own[-1].filename.rpartition('/qmlir/')[2]} {own[-1].name}"
