"""Files with one LSTM on integers, random in all its numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.frontends.tflite.files import Op, T, constant, model

ABSENT = -1
TANH = 4


@dataclass(frozen=True)
class Form:
    """What an LSTM is like.

    outputs     the elements of a projected output; None without a projection
    coupled     whether the input gate is left out
    one_step    whether the operator is LSTM, which computes one step per call
    exponent    the scale of the cell state is 2^exponent
    loud        how far the gates are from 0: beyond 1, sums saturate
    words       whether the data are int16
    """

    batch: int = 2
    steps: int = 3
    width: int = 5
    cells: int = 4
    outputs: int | None = None
    projection_bias: bool = True
    coupled: bool = False
    peepholes: bool = False
    norms: bool = False
    one_step: bool = False
    time_major: bool = False
    exponent: int = -11
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    loud: float = 1.0
    words: bool = False


def lstm(form: Form, seed: int = 0, **changes: Any) -> bytes:
    """A file of an LSTM; `changes` replace tensors by name, or the operator's `inner` tensors and options."""
    random = np.random.default_rng(seed)
    gates, outputs = "ifco", form.outputs or form.cells
    shape = (form.batch,) if form.one_step else (form.batch, form.steps)
    if form.time_major:
        shape = shape[::-1]

    def scale(low: float, high: float) -> list[float]:
        return [float(np.float32(random.uniform(low, high)))]

    def bytes_(name: str, *shape: int, scale: list[float]) -> T:
        return constant(name, random.integers(-127, 128, shape), np.int8, scale=scale)

    def words(name: str, *shape: int, scale: list[float]) -> T:
        return constant(name, random.integers(-32767, 32768, shape), np.int16, scale=scale)

    data, output = scale(0.005, 0.02), scale(0.004, 0.009)
    zero, output_zero = (int(random.integers(-20, 20)) for _ in range(2))
    stored, steps = np.int8, np.int32
    if form.words:
        data, output, zero, output_zero, stored, steps = scale(2e-5, 8e-5), scale(2e-5, 4e-5), 0, 0, np.int16, np.int64
    tensors = [
        T("x", (*shape, form.width), stored, scale=data, zero=[zero]),
        *(bytes_(f"w{g}", form.cells, form.width, scale=scale(0.004, form.loud * 0.03)) for g in gates),
        *(bytes_(f"r{g}", form.cells, outputs, scale=scale(0.004, form.loud * 0.03)) for g in gates),
        *(words(f"p{g}", form.cells, scale=scale(1e-5, 4e-5)) for g in "ifo"),
        *(constant(f"b{g}", random.integers(-8000, 8000, form.cells), steps, scale=[1e-4]) for g in gates),
        bytes_("projection", outputs, form.cells, scale=scale(0.004, 0.02)),
        constant("projection_bias", random.integers(-3000, 3000, outputs), np.int32, scale=[1e-4]),
        T("h", (form.batch, outputs), stored, scale=output, zero=[output_zero], variable=True),
        T("c", (form.batch, form.cells), np.int16, scale=[2.0**form.exponent], variable=True),
        *(words(f"n{g}", form.cells, scale=scale(2e-5, 6e-5)) for g in gates),
    ]
    left_out = set[str]()
    left_out |= set() if form.peepholes else {"pi", "pf", "po"}
    left_out |= {"wi", "ri", "pi", "bi", "ni"} if form.coupled else set()
    left_out |= set() if form.norms else {f"n{g}" for g in gates}
    left_out |= {"projection", "projection_bias"} if form.outputs is None else set()
    left_out |= set() if form.projection_bias else {"projection_bias"}
    tensors = [changes.pop(t.name, t) for t in tensors]
    present = [t for t in tensors if t is not None and t.name not in left_out]
    at = {t.name: i for i, t in enumerate(present)}
    inputs = [at.get(t.name, ABSENT) if t is not None else ABSENT for t in tensors]
    hidden = (scale(0.004, 0.009), [int(random.integers(-20, 20))]) if form.outputs else (output, [output_zero])
    inner = changes.pop("inner", None) or [
        *(T(f"{g}.gate", (0,), np.int16, scale=scale(2e-4, 5e-4)) for g in gates),
        T("hidden", (0,), np.int8, scale=hidden[0], zero=hidden[1]),
    ]
    result = changes.pop("y", None) or T("y", (*shape, outputs), stored, scale=output, zero=[output_zero])
    options = {
        "FusedActivationFunction": TANH,
        "CellClip": form.cell_clip,
        "ProjClip": form.proj_clip,
        **({} if form.one_step else {"TimeMajor": form.time_major}),
        **changes,
    }
    kind, table = ("LSTM", "LSTMOptions") if form.one_step else (
        "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions")  # fmt: skip
    end = len(present)
    op = Op(kind, inputs, [end], table, options, inner=range(end + 1, end + 1 + len(inner)))
    return model([*present, result, *inner], [op], [0], [end])
