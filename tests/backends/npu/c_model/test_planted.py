"""Faults planted in the model's C text: random commands, and the simulator in Python beside them, find each."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.npu.c_model.library import Library, build, compiler
from qmlir.backends.npu.c_model.sources import MODEL, model_sources
from qmlir.devices import load_device
from tests.backends.npu.c_model.random_commands import draw
from tests.backends.npu.c_model.test_random_commands import NARROW, difference

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C compiler")

DEVICE = load_device("gemmini").with_(
    {
        "array.overflow": "trap",
        "quant.bias.type": "i16",
        "ops.softmax": {},
        "ops.layer_norm": {},
        "ops.rms_norm": {},
        "array.modes": [
            {"a": "i8", "w": "i8", "acc": "i32"},
            {"a": "i16", "w": "i8", "acc": "i32"},
            {"a": "i16", "w": "i16", "acc": "i48"},
        ],
        **NARROW,
        "queue.load.arranges": True,
        "queue.load.elements_per_cycle": 16.0,
    }
)
"""A device whose model has every part: floats, wide products, packed weights, matrices, sums that trap."""

SEEDS = range(1200)

PLANTED = {
    "a move of the wrong bytes": ("target[byte] = source[byte];", "target[byte] = source[byte & ~32u];"),
    "a move with the wrong plane pitch": ("plane * FIELD(MOVE, SOURCE_PLANE)", "plane * FIELD(MOVE, TARGET_PLANE)"),
    "a fill of the wrong rows": ("(size_t)row * FIELD(FILL, TARGET_ROW)", "(size_t)row * FIELD(FILL, SIZE)"),
    "packed weights without sign": (") ^ half) - (int32_t)half", ") ^ half) - (int32_t)0"),
    "packed weights in one byte": ("if (shift + bits > 8) both", "if (shift + bits > 9) both"),
    "a matrix without zeros around it": ("inside ? from[byte] : 0", "from[byte]"),
    "a matrix that is not transposed": ("transposed ? pitch : bytes", "transposed ? bytes : bytes"),
    "a matrix of the wrong tiles": ("output * across", "(output - n) * across"),
    "rounding half down": ("shift_right_zeros(t2, INT64_C(1))", "shift_right_zeros(subtract(t2, 1), INT64_C(1))"),
    "floats rounded half up": ("rest == half && (kept & 1)", "rest == half"),
    "floats cut off": ("kept += rest > half", "kept += 0 * rest > half"),
    "factors of channels where there is one": ("(c->per_channel ? 8 * (size_t)(first", "(1 ? 8 * (size_t)(first"),
    "the first factor for every block": ("8 * (size_t)(first + i)", "8 * (size_t)(0 * first + i)"),
    "a context that clips too low": ("c->lower), c->upper)", "c->lower), c->upper - 1)"),
    "a table from its middle": ("(size_t)(values[i] + 128)", "(size_t)(values[i] + 127)"),
    "an index too large by one": ("values[i] > 127) return", "values[i] > 128) return"),
    "a sum without half": ("add(lhs[i], shift_left(1, shift - 1))", "add(lhs[i], shift_left(0, shift - 1))"),
    "sides exchanged": ("multiply(rhs[i], rhs_multiplier)", "multiply(rhs[i], lhs_multiplier)"),
    "a column too far left": ("- w->left;", "- w->left + 1;"),
    "a row beyond the image": ("y >= w->rows", "y > w->rows"),
    "weights of the wrong tile": ("output / TILE_N * tiles", "output / TILE_N * (tiles - 1)"),
    "a product left out": ("s23 += PRODUCT(a2[t], b3[t]);", "s23 += PRODUCT(a2[t], b2[t]);"),
    "data of the wrong term": ("kernel_columns) j = 0, i++;", "kernel_columns) j = 0, i += 2;"),
    "a bias that is not moved": ("shift_left(total[i], c->bias_shift & 63)", "shift_left(total[i], 0)"),
    "sums that trap too late": ("total[i] < -half ||", "total[i] < -2 * half ||"),
    "a maximum that begins at 0": ("is_maximum ? -half : 0", "is_maximum ? 0 : 0"),
    "a mean rounded down": ("(magnitude + divisor / 2) / divisor", "magnitude / divisor"),
    "padding that is not counted": ("if (pixel || padding) divisor++", "if (pixel) divisor++"),
    "an exponential too far on": ("e->entries - 1)", "e->entries)"),
    "the maximum of the last elements": ("most = greater(most, values[i])", "most = values[i]"),
    "a quotient rounded down": ("* values[i] + scaled) / (2", "* values[i]) / (2"),
    "terms cut off": ("(values[i] + (1 << (DROPPED - 1))) >> DROPPED", "values[i] >> DROPPED"),
    "Newton's method from another start": ("INT64_C(1515870810)", "INT64_C(115870810)"),
    "a sum too small to divide": ("total < least[e.division]", "total < 1"),
    "a unit of half the size": ("bits + (31 - unit)", "bits + (32 - unit)"),
    "a breakpoint too far on": ("points(place, e->inverse)", "points(place + 128, e->inverse)"),
    "squares less nothing": ("squares * r.channels - total * total", "squares * r.channels"),
    "an epsilon left out": ("squares >> -q->fraction) + q->epsilon", "squares >> -q->fraction) + 0 * q->epsilon"),
    "a root of another line": ("INT64_C(327149583)", "INT64_C(927149583)"),
    "a factor without its bits": ("lesser(bits, MOST_BEHIND)", "lesser(bits, MOST_BEHIND - 1)"),
    "rows at the wrong distance": ("(size_t)row * r->target_row", "(size_t)row * r->source_row"),
    "a zero point of another element": ("const int64_t d = values[i] - point", "const int64_t d = values[i]"),
    "a row that is not clamped": ("add(from[i], r->zero_point), r->lower", "add(from[i], r->zero_point), INT64_MIN"),
    "sums that begin anew": ("INIT_ACCUMULATE) load_numbers", "INIT_BIAS) load_numbers"),
}  # fmt: skip

"""What is wrong, the text of the model, and what stands there instead."""

FEW = [
    "a sum without half",
    "a quotient rounded down",
    "a row beyond the image",
    "weights of the wrong tile",
    "an index too large by one",
]
"""The faults of `make test`."""


def finds(sources: Mapping[str, str], folder: Path) -> bool:
    """Whether random commands find a difference between a model and the simulator in Python."""
    model = Library(build(sources, folder, quick=True))
    return any(difference(draw(np.random.default_rng(seed), DEVICE), DEVICE, model)[0] is not None for seed in SEEDS)


@pytest.mark.parametrize("name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in PLANTED])
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    sources, (right, wrong) = dict(model_sources(DEVICE)), PLANTED[name]
    assert right in sources[MODEL]
    sources[MODEL] = sources[MODEL].replace(right, wrong)
    assert finds(sources, tmp_path)


def test_without_a_fault(tmp_path: Path) -> None:
    """With the small blocks of firmware."""
    model = Library(build(model_sources(DEVICE), tmp_path, quick=True))
    for seed in range(60):
        assert difference(draw(np.random.default_rng(seed), DEVICE), DEVICE, model)[0] is None
