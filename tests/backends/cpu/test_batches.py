"""Code that takes any batch up to a bound: the bits of single calls and of the reference, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.batches import with_batch
from qmlir.errors import InputError, OptionError, UnsupportedError
from qmlir.frontends.onnx import load_onnx
from tests.backends.onnx.test_batch import images, sequence
from tests.conftest import ROOT
from tests.frontends.onnx.agreement import model, node

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
MOST = 5
NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "digits": (lambda path: DIGITS, (1, 8, 8)), "images": (images, (3, 8, 8)), "sequence": (sequence, (5, 6)),
}  # fmt: skip
TWO_INPUTS = """
module attributes {qmlir.batch = {x = "N", y = "N"}} {
  func.func @main(%x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>},
                  %s: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["s"]>},
                  %y: tensor<1x4xi8> {qmlir.name = #qmlir.name<tensors ["y"]>}) -> (tensor<1x4xf32>, tensor<1x4xi8>) {
    %p = nn.mul %x, %s : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
    %n = nn.neg %y : tensor<1x4xi8> -> tensor<1x4xi8>
    func.return %p, %n : tensor<1x4xf32>, tensor<1x4xi8>
  }
}
"""


def samples(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).normal(size=(MOST, *shape)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), [("digits", "float"), ("images", "int8"), ("sequence", "int8")])
def test_a_batch_has_the_bits_of_single_calls_and_of_the_reference(name: str, precision: str, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]
    x = samples(shape)
    module = qmlir.load(make(tmp_path / "net.onnx"))
    if precision == "int8":
        module = qmlir.quantize(module, data=[sample[None] for sample in x])
    alone, reference = qmlir.compile(module), qmlir.reference(module)
    expected = np.concatenate([alone(sample[None]) for sample in x])
    referred = np.concatenate([reference(sample[None]) for sample in x])
    whole, _ = with_batch(module, main_function(module), MOST)
    np.testing.assert_array_equal(qmlir.reference(whole)(x), referred, strict=True)
    if precision == "int8":  # machine code of float layers rounds otherwise
        np.testing.assert_array_equal(expected, referred, strict=True)
    for threads in (1, 3):
        network = qmlir.compile(module, threads, batch=MOST)
        for count in range(1, MOST + 1):
            np.testing.assert_array_equal(network(x[:count]), expected[:count], strict=True)
        bound = network.bind(held := x[:2].copy())
        held[0] += 1
        np.testing.assert_array_equal(bound(), np.concatenate([alone(held[:1]), expected[1:2]]), strict=True)
        for found, each in zip(network.run_all([sample[None] for sample in x] * 2), [*expected] * 2, strict=True):
            np.testing.assert_array_equal(found[0], each[None], strict=True)


def test_samples_share_inputs_that_had_no_symbol(tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text(TWO_INPUTS)
    network = qmlir.compile(tmp_path / "two.mlir", threads=2, batch=4)
    x, s, y = samples((4,))[:3], np.full((1, 4), 2, np.float32), np.arange(12, dtype=np.int8).reshape(3, 4)
    found = network({"x": x, "s": s, "y": y})
    np.testing.assert_array_equal(found["output0"], 2 * x)
    np.testing.assert_array_equal(found["output1"], -y)
    with pytest.raises(InputError, match=r'input "y": must have as many samples as "x", 3, got 2'):
        network({"x": x, "s": s, "y": y[:2]})
    with pytest.raises(InputError, match=r'input "s": must be float32\[1, 4\], got float32\[3, 4\]'):
        network({"x": x, "s": np.repeat(s, 3, 0), "y": y})
    each = [{"x": x[i : i + 1], "s": s * i, "y": y[i : i + 1]} for i in range(3)]
    for i, outputs in enumerate(network.run_all(each)):
        np.testing.assert_array_equal(outputs[0], x[i : i + 1] * (2 * i))


def test_another_batch_is_refused() -> None:
    network = qmlir.compile(DIGITS, batch=3)
    assert network.signature.described() == "image: float32[1 to 3, 1, 8, 8] → scores: float32[1 to 3, 10]"
    for count in (0, 4):
        need = rf'input "image": must be float32\[1 to 3, 1, 8, 8\], got float32\[{count}, 1, 8, 8\]'
        with pytest.raises(InputError, match=need):
            network(np.zeros((count, 1, 8, 8), np.float32))
    with pytest.raises(InputError, match="must be given as an array"):
        network(None)  # pyright: ignore[reportArgumentType]


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="batch: must be a positive number of samples, got 0"):
        qmlir.compile(DIGITS, batch=0)
    with pytest.raises(OptionError, match="batch: must be an integer"):
        qmlir.compile(DIGITS, batch="many")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="batch: is for code of this processor, got a target"):
        qmlir.compile(DIGITS, target="nmp", batch=2)  # pyright: ignore[reportCallIssue]


@pytest.mark.slow
def test_a_fixed_batch_stays_and_takes_no_other() -> None:
    x = samples((1, 8, 8))
    profile = qmlir.profile(DIGITS, [sample[None] for sample in x])
    one, fixed = (qmlir.quantize(qmlir.load(DIGITS, bind={"batch": n}), profile) for n in (1, MOST))
    expected = np.concatenate([qmlir.compile(one)(sample[None]) for sample in x])
    np.testing.assert_array_equal(qmlir.compile(fixed)(x), expected)
    with pytest.raises(UnsupportedError, match=r"must have an input that begins with a dimension of size 1"):
        qmlir.compile(fixed, batch=2)


@pytest.mark.slow
def test_code_of_a_batch_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path / "cache"))
    made = qmlir.compile(DIGITS, batch=4)
    read = qmlir.compile(DIGITS, batch=4)
    assert len([*(tmp_path / "cache").iterdir()]) == 1
    assert read.signature == made.signature
    assert read.signature.batch is not None
    x = samples((1, 8, 8))[:4]
    np.testing.assert_array_equal(read(x), made(x))
    assert qmlir.compile(DIGITS).signature.batch is None


def test_networks_that_take_one_sample_a_call(tmp_path: Path) -> None:
    """Those that keep a state from call to call, and those whose results' sizes depend on the data."""
    (tmp_path / "sum.mlir").write_text(
        """
        func.func @main(%x: tensor<1x4xf32>, %sum: tensor<1x4xf32> {qmlir.state = #qmlir.state<0>})
            -> (tensor<1x4xf32>, tensor<1x4xf32>) {
          %0 = nn.add %x, %sum : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
          %1 = nn.neg %0 : tensor<1x4xf32> -> tensor<1x4xf32>
          func.return %0, %1 : tensor<1x4xf32>, tensor<1x4xf32>
        }""",
        "utf-8",
    )
    with pytest.raises(UnsupportedError, match="has states, which pass from one call to the next"):
        qmlir.compile(tmp_path / "sum.mlir", batch=2)
    places = load_onnx(model(node("NonZero", "x"), {"x": ["N", 4]}))
    with pytest.raises(UnsupportedError, match="has outputs whose sizes depend on the data"):
        qmlir.compile(places, batch=2)
