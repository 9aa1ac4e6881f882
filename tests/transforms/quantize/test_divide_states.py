"""`activations=dynamic`: caches of rows hold 8 bits and a magnitude for each row."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.cli.main import main

Array = npt.NDArray[Any]
Sequence = list[dict[str, Array]]

HEADS, PLACES, DEPTH, ROWS = 2, 8, 16, 2
CACHE, NEW = f"tensor<{HEADS}x{PLACES}x{DEPTH}xf32>", f"tensor<{HEADS}x{ROWS}x{DEPTH}xf32>"
TURNED = f"tensor<{PLACES}x{HEADS}x{DEPTH}xf32>"

SCATTERED = f"""
  %t = nn.transpose %s {{permutation = array<i64: 1, 0, 2>}} : {CACHE} -> {TURNED}
  %u = nn.transpose %x {{permutation = array<i64: 1, 0, 2>}} : {NEW} -> tensor<{ROWS}x{HEADS}x{DEPTH}xf32>
  %m = nn.scatter_nd %t, %u, %i : {TURNED}, tensor<{ROWS}x{HEADS}x{DEPTH}xf32>, tensor<{ROWS}x1xi64> -> {TURNED}
  %n = nn.transpose %m {{permutation = array<i64: 1, 0, 2>}} : {TURNED} -> {CACHE}"""
"""New rows at given places, as a static cache has them."""

SHIFTED = f"""
  %l = nn.slice %s {{offsets = array<i64: 0, {ROWS}, 0>, sizes = array<i64: {HEADS}, {PLACES - ROWS}, {DEPTH}>,
    strides = array<i64: 1, 1, 1>}} : {CACHE} -> tensor<{HEADS}x{PLACES - ROWS}x{DEPTH}xf32>
  %n = nn.concat %l, %x {{axis = 1 : i64}} : tensor<{HEADS}x{PLACES - ROWS}x{DEPTH}xf32>, {NEW} -> {CACHE}"""
"""New rows behind the last ones, as a stream has them."""


def network(moves: str, folder: Path, place: str = "") -> Path:
    """Rows of a cache weighted by those that enter; its state has a mark with `place`."""
    (folder / "float.mlir").write_text(f"""
    func.func @main(%x: {NEW} {{qmlir.name = #qmlir.name<tensors ["x"]>}},
        %i: tensor<{ROWS}x1xi64> {{qmlir.name = #qmlir.name<tensors ["i"]>}},
        %s: {CACHE} {{qmlir.name = #qmlir.name<tensors ["s"]>, qmlir.state = #qmlir.state<1{place}>}})
        -> ({NEW}, {CACHE}) {{
      {moves}
      %k = nn.transpose %n {{permutation = array<i64: 0, 2, 1>}} : {CACHE} -> tensor<{HEADS}x{DEPTH}x{PLACES}xf32>
      %q = nn.matmul %x, %k : {NEW}, tensor<{HEADS}x{DEPTH}x{PLACES}xf32> -> tensor<{HEADS}x{ROWS}x{PLACES}xf32>
      %y = nn.matmul %q, %n : tensor<{HEADS}x{ROWS}x{PLACES}xf32>, {CACHE} -> {NEW}
      func.return %y, %n : {NEW}, {CACHE}
    }}
    """)
    return folder / "float.mlir"


def sequence(seed: int) -> Sequence:
    """Four calls, whose rows are of magnitudes from 0.25 to 4."""
    rng = np.random.default_rng(seed)
    rows = [rng.uniform(-1, 1, (HEADS, ROWS, DEPTH)) * 4.0 ** rng.integers(-1, 2, (HEADS, ROWS, 1)) for _ in range(4)]
    return [
        {"x": x.astype(np.float32), "i": np.array([[ROWS * step + r] for r in range(ROWS)])}
        for step, x in enumerate(rows)
    ]


def quantized(path: Path, **options: Any) -> ModuleOp:
    data = [sequence(seed) for seed in range(8)]
    return qmlir.quantize(path, data=data, activations="dynamic", measure=False, **options)


def outputs(callable: Any, calls: Sequence) -> list[Array]:
    callable.reset()
    return [np.asarray(callable(call)) for call in calls]


@pytest.mark.parametrize("moves", [SCATTERED, SHIFTED], ids=["scattered", "shifted"])
def test_a_cache_holds_8_bits_and_magnitudes(moves: str, tmp_path: Path) -> None:
    path = network(moves, tmp_path)
    module = quantized(path)
    executable, reference = qmlir.compile(module), qmlir.reference(module)
    own = outputs(executable, sequence(99))
    assert all((a == b).all() for a, b in zip(own, outputs(reference, sequence(99)), strict=True))
    held = executable.state
    assert {name: (array.dtype, array.shape) for name, array in held.items()} == {
        "s": (np.int8, (HEADS, PLACES, DEPTH)),
        "s.magnitudes": (np.int16, (HEADS, PLACES, 1)),
    }
    assert (np.abs(held["s"]).max(axis=-1) == 127).all()  # each row fills its bits
    exact = outputs(qmlir.compile(path), sequence(99))
    noise = sum(((a - b) ** 2).sum() for a, b in zip(own, exact, strict=True))
    assert 10 * np.log10(sum((b**2).sum() for b in exact) / noise) > 34


def test_a_static_cache_stays_whole(tmp_path: Path) -> None:
    module = qmlir.quantize(network(SCATTERED, tmp_path), data=[sequence(0)], measure=False)
    assert [*qmlir.compile(module).state] == ["s"]


def test_the_value_before_the_first_call_is_divided(tmp_path: Path) -> None:
    module = quantized(network(SCATTERED, tmp_path, ", reset = #qmlir.weights<tensor<f32>, [0.5]>"))
    held = qmlir.reference(module).state
    assert (held["s"] == 127).all()
    (steps,) = np.unique(held["s.magnitudes"])
    assert steps > 0
    own = outputs(qmlir.compile(module), sequence(99))
    assert all((a == b).all() for a, b in zip(own, outputs(qmlir.reference(module), sequence(99)), strict=True))


def test_a_cache_is_certified(tmp_path: Path) -> None:
    qmlir.save(quantized(network(SCATTERED, tmp_path)), tmp_path / "q.mlir")
    assert main(["certify", str(tmp_path / "q.mlir"), "-o", str(tmp_path / "q.json"), "--quiet"]) == 0
    assert main(["certify", "--check", str(tmp_path / "q.json"), "--quiet"]) == 0
