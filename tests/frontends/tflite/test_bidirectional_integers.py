"""An LSTM of two directions on integers, as converters write it: two of one direction, one between two reversals."""

from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.frontends.tflite import integer_cells
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run
from tests.frontends.tflite.integer_cells import Form, lstm


def parts(form: Form, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[T], Op]:
    """The tensors of an LSTM on integers, the first of which is its input, and its operator."""
    found: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(integer_cells, "model", lambda *given: found.append(given) or b"")
        lstm(form, seed)
    tensors, (op,), _, _ = found[0]
    return list(tensors), op


def shifted(op: Op, by: int, first: int) -> Op:
    """An operator whose tensors stand `by` places later; its data are tensor `first`."""
    inputs = [first if i == 0 else -1 if i < 0 else i + by for i in op.inputs]
    return Op(op.kind, inputs, [o + by for o in op.outputs], op.options_kind, op.options, op.version,
              [i + by for i in op.inner])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("form", [Form(), Form(time_major=True, peepholes=True), Form(coupled=True, cell_clip=0.6)])
def test_both_directions_have_litert_s_bits(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    (ahead, first), (back, second) = (parts(form, 0, monkeypatch) for _ in range(2))
    x, y, axis = ahead[0], ahead[first.outputs[0]], 0 if form.time_major else 1
    back = [T(f"{t.name}.back", t.shape, t.dtype, t.data, t.scale, t.zero, t.axis, variable=t.variable) for t in back]
    tensors = [*ahead, *back]
    by, at = len(ahead), len(tensors)
    tensors += [
        constant("axis", [axis], np.int32),
        T("reversed", x.shape, x.dtype, None, x.scale, x.zero),
        T("returned", y.shape, y.dtype, None, y.scale, y.zero),
        T("both", (*y.shape[:2], 2 * y.shape[2]), y.dtype, None, y.scale, y.zero),
    ]
    operators = [
        first,
        Op("REVERSE_V2", [0, at], [at + 1], "ReverseV2Options", version=3),
        shifted(second, by, at + 1),
        Op("REVERSE_V2", [second.outputs[0] + by, at], [at + 2], "ReverseV2Options", version=3),
        Op("CONCATENATION", [first.outputs[0], at + 2], [at + 3], "ConcatenationOptions", {"Axis": 2}, version=2),
    ]
    data, random = model(tensors, operators, [0], [at + 3]), np.random.default_rng(1)
    module = load_tflite(data)
    assert not opaque_report(module)
    for numerics in RESOLVERS:
        follow(module, numerics)
        theirs, ours = interpreter(data, numerics), qmlir.reference(module)
        for _ in range(3):
            image = random.integers(-128, 128, x.shape).astype(np.int8)
            np.testing.assert_array_equal(ours(image), run(theirs, [image])[0], numerics)
