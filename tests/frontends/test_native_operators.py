"""Operators in C that the program defines: in the reference, called by machine code, in a C program with an object."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import qmlir
from qmlir.cli.main import main
from qmlir.errors import OptionError, QmlirError
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.own_operators import own_operator
from tests.frontends.onnx.agreement import FLOAT
from tests.frontends.test_own_operators import network, samples, swirl

SOURCE = """
#include <stdint.h>

static int64_t size(const int64_t *shape, int64_t rank) {
  int64_t n = 1;
  for (int64_t i = 0; i < rank; ++i) n *= shape[i];
  return n;
}

void swirl(const void *const *inputs, void *const *outputs, const int64_t *const *shapes, const int64_t *ranks,
           const double *attributes) {
  const float *x = inputs[0];
  float *y = outputs[0];
  for (int64_t i = 0; i < size(shapes[0], ranks[0]); ++i)
    y[i] = x[i] * (float)attributes[0] + (float)attributes[1] * (float)shapes[1][1];
}

/* Rows of a, as often as the second input says, and the sum of all. */
void repeat(const void *const *inputs, void *const *outputs, const int64_t *const *shapes, const int64_t *ranks,
            const double *attributes) {
  const float *x = inputs[0];
  const int64_t *times = inputs[1];
  float *y = outputs[0], *sum = outputs[1];
  int64_t rows = shapes[0][0], width = shapes[0][1];
  *sum = 0;
  for (int64_t i = 0; i < rows * width; ++i) *sum += x[i];
  for (int64_t i = 0; i < shapes[2][0] * width; ++i) y[i] = x[i % (rows * width)] * (float)times[0];
}
"""

PROGRAM = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  uint8_t *weights = aligned_alloc(NET_ALIGNMENT, 65536), *arena = aligned_alloc(NET_ALIGNMENT, 65536);
  FILE *file = fopen(argv[1], "rb");
  if (!file || fread(weights, 1, NET_WEIGHTS_SIZE, file) != NET_WEIGHTS_SIZE || NET_ARENA_SIZE > 65536) return 1;
  float x[6] = {1, -2, 3, -4, 5, -6}, y[4];
  const void *inputs[] = {x};
  void *outputs[] = {y};
  net(weights, arena, inputs, outputs);
  return fwrite(y, sizeof(float), 4, stdout) != 4;
}
"""


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    with qmlir.scoped_ops():
        yield


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("there is no C compiler called cc")
    return found


@pytest.fixture(scope="session")
def library(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operators")
    (folder / "operators.c").write_text(SOURCE)
    path = folder / "liboperators.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, folder / "operators.c"], check=True)
    return path


def define(library: Any, **options: Any) -> None:
    given: dict[str, Any] = {"symbol": "swirl", "attributes": {"strength": 1.0, "shift": 0.5}}
    qmlir.register_op("mine", "Swirl", library=library, **(given | options))


def expected(x: Any, strength: float) -> Any:
    w, v = (numpy_helper.to_array(t) for t in network().graph.initializer)
    return (x @ w * np.float32(strength) + np.float32(0.5 * 5)) @ v


@pytest.mark.parametrize("loaded", [str, ctypes.CDLL])
def test_reference_and_machine_code_call_it(loaded: Any, library: Path) -> None:
    define(loaded(library))
    module = load_onnx(network(strength=3.0))
    reference, executable = qmlir.reference(module), qmlir.compile(module, 2)
    for x in samples():
        np.testing.assert_array_equal(executable(x), reference(x))
        np.testing.assert_allclose(executable(x), expected(x, 3.0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(executable.bind(x)(), executable(x))


def test_machine_code_calls_it_without_python(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    define(library)
    executable = qmlir.compile(load_onnx(network()))
    monkeypatch.setattr("qmlir.ir.native.NativeFunction.__call__", None)
    monkeypatch.setattr("qmlir.ir.own_operators.OwnOperator.compute", None)
    x = samples()[0]
    np.testing.assert_allclose(executable(x), expected(x, 1.0), rtol=1e-5, atol=1e-5)


def test_several_tensors_of_other_shapes_and_types(library: Path) -> None:
    qmlir.register_op("mine", "Repeat", library=library, symbol="repeat", shape=lambda x, n: [(5, x[1]), ()])
    node = helper.make_node("Repeat", ["x", "n"], ["y", "sum"], domain="mine")
    values = [helper.make_tensor_value_info("x", FLOAT, [2, 3]), helper.make_tensor_value_info("n", 7, [1])]
    results = [helper.make_tensor_value_info(n, FLOAT, None) for n in ("y", "sum")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    module = load_onnx(helper.make_model(helper.make_graph([node], "g", values, results), opset_imports=opsets))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for run in (qmlir.reference(module), qmlir.compile(module)):
        found = run({"x": x, "n": np.array([2])})
        np.testing.assert_array_equal(found["y"], 2 * np.concatenate([x, x, x])[:5])
        assert found["sum"] == 15


@pytest.mark.slow
def test_it_stays_on_floats_between_integers(library: Path, tmp_path: Path) -> None:
    define(library)
    q = qmlir.quantize(qmlir.Pipeline("simplify")(load_onnx(network(strength=2.0))), data=samples())
    qmlir.save(q, tmp_path / "net.mlir")
    for each in (q, qmlir.load(tmp_path / "net.mlir")):
        executable, reference = qmlir.compile(each), qmlir.reference(each)
        for x in samples():
            np.testing.assert_array_equal(executable(x), reference(x))
    simulated = qmlir.compile(qmlir.quantize(load_onnx(network()), data=samples(), target="vta"), target="vta")
    assert np.isfinite(simulated(samples()[0])).all()


@pytest.mark.slow
def test_a_firmware_has_no_operators_of_the_program(library: Path, tmp_path: Path) -> None:
    """The program of the device is run by Python, which has the operators."""
    define(library)
    q = qmlir.quantize(load_onnx(network()), data=samples(), target="vta")
    with pytest.raises(OptionError, match=r"operators of the program's own; write an \.npu file, which Python runs"):
        qmlir.bundle(q, tmp_path / "out", target="vta")
    assert not (tmp_path / "out").exists()
    qmlir.compile(q, target="vta").save(tmp_path / "net.npu")
    loaded, reference = qmlir.load_program(tmp_path / "net.npu", "vta"), qmlir.reference(q)
    for x in samples():
        np.testing.assert_array_equal(loaded(x), reference(x))


def test_a_c_program_defines_what_an_object_calls(
    library: Path, compiler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line knows no operator of this program; the saved module has the symbol and the numbers."""
    x = np.array([[1, -2, 3, -4, 5, -6]], np.float32)
    with qmlir.scoped_ops():
        define(library)
        module = load_onnx(network(strength=2.0))
        qmlir.save(module, tmp_path / "net.mlir")
        wanted = qmlir.reference(module)(x)
    assert main(["compile", str(tmp_path / "net.mlir"), "--bundle", "-o", str(tmp_path / "bundle")]) == 1
    assert "compile it to an .o file, and link it with a program that has them in C" in capsys.readouterr().err
    assert main(["compile", str(tmp_path / "net.mlir"), "-o", str(tmp_path / "net.o")]) == 0
    assert "void swirl(const void *const *inputs" in (tmp_path / "net.h").read_text()
    (tmp_path / "program.c").write_text(PROGRAM)
    sources = [tmp_path / "program.c", library.with_name("operators.c"), tmp_path / "net.o"]
    subprocess.run([compiler, "-Wall", "-o", tmp_path / "program", *sources, "-lm"], check=True)
    done = subprocess.run([tmp_path / "program", tmp_path / "net.weights.bin"], capture_output=True, check=True)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32).reshape(1, 4), wanted)


def test_an_object_calls_no_python(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts, which are for reading, name the call; an object with it could not be linked."""
    with qmlir.scoped_ops():
        qmlir.register_op("mine", "Swirl", swirl)
        module = load_onnx(network(strength=2.0))
        qmlir.save(module, tmp_path / "net.mlir")
        assert main(["compile", str(tmp_path / "net.mlir"), "-o", str(tmp_path / "net.o")]) == 1
        error = capsys.readouterr().err
        assert 'operator "Swirl" of domain "mine": must be a function in C, because an object file cannot call' in error
        assert "define it by qmlir.register_op with library= and symbol=, or run the network in Python" in error
        assert not [tmp_path / f"net.{end}" for end in ("o", "h", "weights.bin") if (tmp_path / f"net.{end}").exists()]
        assert main(["compile", str(tmp_path / "net.mlir"), "--emit", "asm", "-o", str(tmp_path / "net.s")]) == 0
        np.testing.assert_array_equal(qmlir.compile(module)(samples()[0]), qmlir.reference(module)(samples()[0]))
    define(library)
    qmlir.save(load_onnx(network(strength=2.0)), tmp_path / "net.mlir")
    assert main(["compile", str(tmp_path / "net.mlir"), "-o", str(tmp_path / "net.o")]) == 0


def test_a_definition_that_is_gone_or_another(library: Path) -> None:
    with qmlir.scoped_ops():
        define(library)
        module = load_onnx(network())
    x = samples()[0]
    executable = qmlir.compile(module, cache=False)  # an object may be linked with the function elsewhere
    for run in (executable, qmlir.reference(module)):
        with pytest.raises(QmlirError, match=r'operator "Swirl" of domain "mine": must be defined by the program'):
            run(x)
    qmlir.register_op("mine", "Swirl", lambda h: h)
    with pytest.raises(QmlirError, match=r"must be the C function swirl.*got a function in Python"):
        qmlir.compile(module, cache=False)(x)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"library": "libnothing.so"}, "register_op library: must be a shared library, got .*libnothing.so"),
        ({"library": 3}, "register_op library: must be the path of a shared library, got 3"),
        ({"symbol": "whirl"}, "register_op symbol: must be a function of .*liboperators.so, got whirl"),
        ({"symbol": "a-b"}, "register_op symbol: must be the name of a function in C, got 'a-b'"),
        ({"symbol": None}, "register_op symbol: must be the name of a function in C, got None"),
        ({"attributes": {"strength": "much"}}, "register_op attributes: must be numbers by name"),
        ({"function": lambda x: x}, "register_op function: must be left out beside a function in C"),
    ],
)
def test_definitions_that_cannot_be(given: dict[str, Any], error: str, library: Path) -> None:
    with pytest.raises(OptionError, match=error):
        define(**{"library": library, **given})


def test_attributes_that_it_does_not_take(library: Path) -> None:
    define(library)
    with pytest.raises(QmlirError, match=r"must be numbers, of strength, shift, got axes = \(1, 2\)"):
        load_onnx(network(axes=[1, 2]))


def test_a_network_of_the_same_name(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    define(library)
    qmlir.save(load_onnx(network()), tmp_path / "net.mlir")
    assert main(["compile", str(tmp_path / "net.mlir"), "-o", str(tmp_path / "swirl.o")]) == 1
    assert "must not be called like a function of the network" in capsys.readouterr().err


def test_a_scope_forgets_and_restores() -> None:
    qmlir.register_op("mine", "A", outer := lambda x: x)
    with qmlir.scoped_ops():
        qmlir.register_op("mine", "A", lambda x: -x)
        qmlir.register_op("mine", "B", lambda x: -x)
    own = own_operator("mine", "A")
    assert own is not None
    assert own.function is outer
    assert own_operator("mine", "B") is None
