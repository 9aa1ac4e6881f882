"""What becomes of a case: it passes, qmlir refuses it with a reason, or there is a defect.

import → reference        every operation's own meaning in numpy
import → simplify → CPU   machine code; it must also equal the reference on the same module bit for bit
"""

import traceback
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TypeProto
from onnx.backend.test.runner import Runner

import qmlir
from qmlir.errors import NodeError, QmlirError, UnsupportedError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.stages import SIMPLIFY
from tests.conformance.cases import Case

PASSED, LISTED, FAILED = "pass", "listed", "FAIL"

BACKENDS = ("reference", "CPU")


TWO_UNITS = "f16: up to two units in the last place off ONNX's result, which ONNX allows for bf16 only"

NOISE = "f32: ONNX's own transform leaves its last places where results are 0"
"""Each operation on halves is computed in f32 and rounded once; ONNX's script rounds elsewhere."""

DRAWN = "its result is random: numbers are drawn from another stream than ONNX's script draws them from"

ONLY_IMPORTED = "only imported: each of its weights is one number repeated, so that all its outputs are equal"


@dataclass(frozen=True)
class Result:
    """`PASSED`, `LISTED` with qmlir's reason, or `FAILED` with what is wrong."""

    status: str
    text: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of a case on each back end.

    constants  the inputs that had to be loaded as constants
    """

    constants: tuple[str, ...]
    reference: Result
    cpu: Result

    def of(self, backend: str) -> Result:
        """The result on one of `BACKENDS`."""
        return self.reference if backend == "reference" else self.cpu


class _Refused(Exception):
    """qmlir's reason for not taking a model."""


class _Wrong(Exception):
    """A defect."""


def attempt(case: Case) -> Outcome:
    """Runs a case on both back ends."""
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    module, constants, imported = None, (), _import(case, ())
    parameters = tuple(case.parameters())
    if isinstance(imported, Result) and imported.status == LISTED and parameters:
        constants, imported = parameters, _import(case, parameters)
    if isinstance(imported, Result):
        return Outcome(constants, imported, imported)
    module = imported
    if not case.data:
        return Outcome((), Result(PASSED), Result(LISTED, ONLY_IMPORTED))
    reference = _guarded(lambda: _compare(case, constants, qmlir.reference(module)))
    cpu = _guarded(lambda: _run_cpu(case, constants, module))
    return Outcome(constants, reference, cpu)


def _import(case: Case, constants: tuple[str, ...]) -> Any:
    """The module, or the result if there is none."""
    found: list[Any] = []

    def run() -> None:
        given = dict(zip(case.inputs(), case.data[0][0], strict=False)) if case.data else {}
        values = {n: given[n] for n in constants}
        sizes = _sizes(case, {n: v for n, v in given.items() if n not in constants})
        module = load_onnx(case.path or case.model, bind=sizes, constants=values)
        module.verify()
        if report := opaque_report(module):
            raise _Refused("; ".join(f"{k.kind.removeprefix('onnx.')}: {k.reason}" for k in report))
        found.append(module)

    result = _guarded(run)
    place = str(case.path)
    return found[0] if found else Result(result.status, result.text.replace(place, "<model>"))


def _run_cpu(case: Case, constants: tuple[str, ...], module: Any) -> None:
    simple = qmlir.Pipeline(*SIMPLIFY)(module)
    executable = qmlir.compile(simple)
    reference = qmlir.reference(simple)
    _compare(case, constants, executable)
    for inputs, _ in case.data:
        given = _arguments(case, constants, inputs)
        for ours, wanted in zip(executable.run(given), reference.run(given), strict=True):
            if not _same(ours, wanted):
                raise _Wrong("the CPU's bits differ from the reference's")


def _sizes(case: Case, given: dict[str, Any]) -> dict[str, int]:
    """How many tensors sequences and optional inputs have, and the sizes that the file leaves open."""
    found: dict[str, int] = {}
    for info in case.model.graph.input:
        kind, value = info.type, given.get(info.name)
        if kind.HasField("optional_type"):
            found[info.name] = 0 if value is None else 1
            kind = kind.optional_type.elem_type
        if kind.HasField("sequence_type") and value is not None:
            found[info.name] = len(value)
            for place, each in enumerate(value):
                found |= _open(f"{info.name}.{place}", kind.sequence_type.elem_type, each, own=True)
        elif value is not None:
            found |= _open(info.name, kind, value)
    return found


def _open(name: str, kind: TypeProto, value: Any, *, own: bool = False) -> dict[str, int]:
    """The sizes of the symbols in a tensor's shape; symbols of tensors in a sequence are each tensor's own."""
    sizes = enumerate(zip(kind.tensor_type.shape.dim, np.shape(value), strict=False))
    return {
        (f"{name}.{dim.dim_param}" if own else dim.dim_param) if dim.dim_param else f"{name}.{axis}": size
        for axis, (dim, size) in sizes
        if not dim.HasField("dim_value")
    }


def _arguments(case: Case, constants: tuple[str, ...], inputs: list[Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in zip(case.inputs(), inputs, strict=False):
        if isinstance(value, list | tuple):
            given |= {f"{name}.{place}": np.asarray(each) for place, each in enumerate(value)}
        elif value is not None and name not in constants:
            given[name] = value
    return given


def _compare(case: Case, constants: tuple[str, ...], network: Any) -> None:
    """Compares what a network computes with what ONNX wants, as ONNX's own runner does."""
    for inputs, wanted in case.data:
        arrays = network.run(_arguments(case, constants, inputs))
        got = list(network.signature.counted(arrays).values())
        wanted = [each for value in wanted for each in (value if isinstance(value, list) else [value])]  # of sequences
        try:
            Runner.assert_similar_outputs(wanted, got, case.rtol, case.atol)
        except AssertionError as error:
            if all(_is_near_in_halves(a, b) for a, b in zip(got, wanted, strict=True)):
                raise _Refused(TWO_UNITS) from None
            if case.operator == "DFT" and all(_is_noise(a, b) for a, b in zip(got, wanted, strict=True)):
                raise _Refused(NOISE) from None
            if case.operator == "Bernoulli" and all(map(_is_drawn_like, got, wanted)):
                raise _Refused(DRAWN) from None
            raise _Wrong(" ".join(str(error).split())[:200]) from None


def _is_near_in_halves(ours: Any, theirs: Any) -> bool:
    """Whether two arrays of f16 differ by two units in the last place, 2⁻⁹ of their magnitude, at most."""
    if ours.dtype != np.float16 or theirs.dtype != np.float16 or ours.shape != theirs.shape:
        return False
    return np.allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=2**-9, atol=0, equal_nan=True)


def _is_noise(ours: Any, theirs: Any) -> bool:
    """Whether two arrays of f32 differ by the last places of the largest result."""
    if ours.dtype != np.float32 or theirs.dtype != np.float32 or ours.shape != theirs.shape:
        return False
    return bool(np.abs(ours - theirs).max(initial=0) <= 2**-22 * np.abs(theirs).max(initial=0))


def _is_drawn_like(ours: Any, theirs: Any) -> bool:
    """Whether two arrays have one type and shape, and the first has zeros and ones only."""
    return ours.dtype == theirs.dtype and ours.shape == theirs.shape and bool(np.isin(ours, [0, 1]).all())


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal bit for bit, all NaNs being one."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.isbuiltin != 1:  # bfloat16 and its like, of which numpy does not know the NaN
        a, b = a.astype(np.float32), b.astype(np.float32)
    different = a != b
    if a.dtype.kind == "f":
        different = (different & ~(np.isnan(a) & np.isnan(b))) | ((np.signbit(a) != np.signbit(b)) & ~np.isnan(a))
    return not np.any(different)


def _guarded(run: Any) -> Result:
    """The result of something that returns if all is well."""
    try:
        run()
    except _Refused as refusal:
        return Result(LISTED, str(refusal))
    except _Wrong as wrong:
        return Result(FAILED, str(wrong))
    except QmlirError as error:
        if isinstance(error, NodeError) and not isinstance(error, UnsupportedError):
            return Result(FAILED, f"calls ONNX's own model wrong: {error}")
        return Result(LISTED, str(error))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/qmlir/')[2]}:{where.lineno}"
        return Result(FAILED, f"{type(error).__name__} at {place}: {' '.join(str(error).split())[:200]}")
    return Result(PASSED)
