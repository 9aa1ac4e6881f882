"""DEQUANTIZE, an operator on floats, QUANTIZE: LiteRT computes it on floats, and its numerics follow that.

What is a table here, or moves integers, has LiteRT's bits. So has what stays on floats, but for a number so near to the
middle between two steps that the last bit of a float decides: one step, in few results.
"""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline
from qmlir.policies.ledger import decisions
from qmlir.stages import IMPORTED
from tests.backends.tflite.runtime import kinds
from tests.conftest import crossed
from tests.frontends.tflite.cases import Case
from tests.frontends.tflite.fallbacks import STORED, fallback, fallbacks, integers
from tests.frontends.tflite.files import RESOLVERS, Op, T, interpreter, model, run

Array = np.ndarray

pytestmark = pytest.mark.filterwarnings("ignore")

FEW = 0.03
"""The share of results that the last bit of a float may decide."""

LEAVES_OUT_A_NEIGHBOUR = ("LOCAL_RESPONSE_NORMALIZATION", "litert-reference")

BEYOND_INT32 = ("UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_MAX")
"""Operators that yield the largest float for an empty segment, which some of LiteRT's QUANTIZE convert to an integer
without a look at its size."""

FUNCTIONS = (
    "RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ELU", "GELU", "EXP", "LOG",
    "RSQRT", "SQRT", "ABS", "SIN", "COS", "NEG", "FLOOR", "CEIL", "ROUND",
)  # fmt: skip
"""Operators of one element, which become tables."""


def loaded(data: bytes, numerics: str, path: Path) -> ModuleOp:
    """The network of a file, its casts folded."""
    path.write_bytes(data)
    return Pipeline(*IMPORTED)(qmlir.load(path, numerics=numerics))


def computed(module: ModuleOp, inputs: list[Array]) -> list[Array]:
    meaning = qmlir.reference(module)
    return meaning.run(dict(zip([s.name for s in meaning.signature.inputs], inputs, strict=True)))


def litert(data: bytes, numerics: str, inputs: list[Array]) -> list[Array] | None:
    """What LiteRT computes; None where it has no kernel."""
    try:
        return run(interpreter(data, numerics), inputs)
    except (RuntimeError, ValueError):
        return None


@crossed({"case": fallbacks(), "stored": STORED})
def test_an_operator_on_floats_has_litert_s_result(case: Case, stored: str, tmp_path: Path) -> None:
    data, inputs = fallback(case, stored), integers(case, stored)
    followed = list(RESOLVERS)
    if stored != "int8":  # one for each case is enough
        followed = followed[len(case.name) % 3 :][:1]
    for numerics in followed:
        theirs = litert(data, numerics, inputs)
        if theirs is None or (case.kind, numerics) == LEAVES_OUT_A_NEIGHBOUR or case.kind in BEYOND_INT32:
            continue
        module = loaded(data, numerics, tmp_path / "m.tflite")
        on_floats = any(e.outcome == "float" for e in decisions(module))
        assert not (on_floats and case.kind in FUNCTIONS)
        for ours, wanted in zip(computed(module, inputs), theirs, strict=True):
            steps = np.abs(ours.astype(np.int64) - wanted)
            assert steps.max(initial=0) <= on_floats
            assert np.count_nonzero(steps) <= FEW * steps.size


# ---------------------------------------------------------------------------------------------------------------
# Every integer


def function(kind: str) -> Case:
    return next(case for case in fallbacks() if case.kind == kind)


def every(stored: str, positive: bool) -> Array:
    """Every integer of a type, those of numbers above 0 only if asked for."""
    limits, zero = np.iinfo(stored), STORED[stored][0][1]
    low = zero + 1 if positive else int(limits.min)
    return np.arange(low, int(limits.max) + 1).astype(stored)


def chain(kind: str, stored: str, x: Array) -> bytes:
    """An operator on floats between casts, of a vector."""
    _, (op,), _, _ = function(kind).parts("float32")
    (s, z), (t, u) = STORED[stored]
    tensors = [T("q", x.shape, np.dtype(stored), None, [s], [z]), T("x", x.shape), T("y", x.shape),
               T("r", x.shape, np.dtype(stored), None, [t], [u])]  # fmt: skip
    operators = [
        Op("DEQUANTIZE", [0], [1], "DequantizeOptions", {}, 3 if stored == "int16" else 2),
        Op(kind, [1], [2], op.options_kind, op.options),
        Op("QUANTIZE", [2], [3], "QuantizeOptions", {}),
    ]
    return model(tensors, operators, [0], [3])


EXACT_IN_FLOAT32 = ("RELU", "RELU6", "LEAKY_RELU", "SQRT", "ABS", "NEG", "FLOOR", "CEIL", "ROUND")
"""Functions that need one correctly rounded operation of float32 or none, so that every float is LiteRT's."""

ROUGH = ("SQRT", "litert-xnnpack")
"""XNNPACK's root, whose last bit is another one now and then: 16 bits see that."""


@crossed({"kind": EXACT_IN_FLOAT32, "stored": STORED})
def test_a_table_lists_litert_s_bits(kind: str, stored: str, tmp_path: Path) -> None:
    x = every(stored, positive=kind == "SQRT")
    data = chain(kind, stored, x)
    for numerics in RESOLVERS:
        theirs = litert(data, numerics, [x])
        if theirs is None or (stored == "int16" and (kind, numerics) == ROUGH):
            continue
        module = loaded(data, numerics, tmp_path / "m.tflite")
        assert all("a table of what the model computes on floats" in e.reason for e in decisions(module))
        np.testing.assert_array_equal(computed(module, [x])[0], theirs[0])
        np.testing.assert_array_equal(qmlir.compile(module)(x), theirs[0])


@pytest.mark.parametrize("before", STORED)
@pytest.mark.parametrize("behind", STORED)
def test_a_change_of_scale_through_floats(before: str, behind: str, tmp_path: Path) -> None:
    """DEQUANTIZE and QUANTIZE side by side are not the QUANTIZE between integers, which rounds otherwise."""
    x = every(before, positive=False)
    (s, z), (t, u) = STORED[before][0], STORED[behind][1]
    tensors = [T("q", x.shape, np.dtype(before), None, [s], [z]), T("x", x.shape),
               T("r", x.shape, np.dtype(behind), None, [t], [u])]  # fmt: skip
    operators = [
        Op("DEQUANTIZE", [0], [1], "DequantizeOptions", {}, 3 if before == "int16" else 2),
        Op("QUANTIZE", [1], [2], "QuantizeOptions", {}),
    ]
    data = model(tensors, operators, [0], [2])
    for numerics in RESOLVERS:
        theirs = litert(data, numerics, [x])
        assert theirs is not None
        module = loaded(data, numerics, tmp_path / "m.tflite")
        np.testing.assert_array_equal(computed(module, [x])[0], theirs[0])


# ---------------------------------------------------------------------------------------------------------------
# What becomes of a fallback


def test_the_default_numerics_fold_a_fallback(tmp_path: Path) -> None:
    """As under a runtime of another format: only LiteRT says by its operators what is computed on floats."""
    data = chain("SQRT", "int8", every("int8", positive=True))
    for numerics in ("default", "onnxruntime"):
        (entry,) = decisions(loaded(data, numerics, tmp_path / "m.tflite"))
        assert (entry.outcome, entry.reason) == ("quantized", "i8 activations")


def test_what_no_table_lists_stays_on_floats(tmp_path: Path) -> None:
    add = next(case for case in fallbacks() if case.kind == "ADD")
    module = loaded(fallback(add, "int8"), "litert-reference", tmp_path / "m.tflite")
    (entry,) = [e for e in decisions(module) if e.operation == "nn.add"]
    assert (entry.outcome, entry.code) == ("float", "runtime")
    assert entry.remedy == "follow no runtime: load the model with numerics=default"
    (entry,) = [e for e in decisions(loaded(fallback(add, "int8"), "default", tmp_path / "m.tflite"))]
    assert entry.outcome == "quantized"


@pytest.mark.parametrize("kind", ["SQRT", "RELU6", "LEAKY_RELU"])
def test_a_fallback_is_exported_as_one(kind: str, tmp_path: Path) -> None:
    x = every("int8", positive=kind == "SQRT")
    data = chain(kind, "int8", x)
    module = loaded(data, "litert-reference", tmp_path / "m.tflite")
    qmlir.export(module, tmp_path / "again.tflite", format="tflite")
    found = kinds(tmp_path / "again.tflite")
    assert (found[0], found[-1]) == ("DEQUANTIZE", "QUANTIZE")
    again = litert((tmp_path / "again.tflite").read_bytes(), "litert-reference", [x])
    wanted = litert(data, "litert-reference", [x])
    assert again is not None
    assert wanted is not None
    np.testing.assert_array_equal(again[0], wanted[0])


def test_a_negation_of_stored_integers(tmp_path: Path) -> None:
    """NEG of int8 itself LiteRT computes whatever the integers stand for; by default it is one of real numbers."""
    x = every("int8", positive=False)
    (s, z), (t, u) = STORED["int8"]
    tensors = [T("q", x.shape, np.int8, None, [s], [z]), T("r", x.shape, np.int8, None, [t], [u])]
    data = model(tensors, [Op("NEG", [0], [1], "NegOptions", {})], [0], [1])
    for numerics in RESOLVERS:
        wanted = litert(data, numerics, [x])
        assert wanted is not None
        np.testing.assert_array_equal(computed(loaded(data, numerics, tmp_path / "m.tflite"), [x])[0], wanted[0])
    real = np.clip(np.rint(-s * (x.astype(np.float64) - z) / t) + u, -128, 127)
    assert np.abs(computed(loaded(data, "default", tmp_path / "m.tflite"), [x])[0] - real).max() <= 1


def test_transposes_leave_a_fallback_one(tmp_path: Path) -> None:
    """Casts that a transpose sinks through stay operators."""
    shape, turned = (1, 2, 3, 4), (1, 4, 2, 3)
    (s, z), (t, u) = STORED["int8"]
    order, back = (np.array(p, np.int32) for p in ([0, 3, 1, 2], [0, 2, 3, 1]))
    tensors = [
        T("q", shape, np.int8, None, [s], [z]), T("p", (4,), np.int32, order),
        T("qt", turned, np.int8, None, [s], [z]), T("x", turned), T("y", turned),
        T("r", turned, np.int8, None, [t], [u]), T("b", (4,), np.int32, back), T("rt", shape, np.int8, None, [t], [u]),
    ]  # fmt: skip
    operators = [
        Op("TRANSPOSE", [0, 1], [2], "TransposeOptions", {}, 2), Op("DEQUANTIZE", [2], [3], "DequantizeOptions", {}, 2),
        Op("SQRT", [3], [4]), Op("QUANTIZE", [4], [5], "QuantizeOptions", {}),
        Op("TRANSPOSE", [5, 6], [7], "TransposeOptions", {}, 2),
    ]  # fmt: skip
    data = model(tensors, operators, [0], [7])
    x = np.random.default_rng(0).integers(0, 128, shape).astype(np.int8)
    module = loaded(data, "litert-builtin", tmp_path / "m.tflite")
    assert [e.operation for e in decisions(module)] == ["nn.sqrt"]
    wanted = litert(data, "litert-builtin", [x])
    assert wanted is not None
    np.testing.assert_array_equal(computed(module, [x])[0], wanted[0])
