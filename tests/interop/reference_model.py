"""Arm's reference model of TOSA, the normative one: what it computes is what TOSA means.

    python -m tests.interop.reference_model      installs the tools into build/tosa-tools

The package `tosa-tools` brings `tosa-opt`, which verifies a module and writes it as a flatbuffer, and the reference
model, which runs the flatbuffer. The package also has top-level Python modules with names such as `runner` and
`checker`, so it gets an environment of its own. `QMLIR_TOSA_TOOLS` names another environment that has it. Tests that
need the tools are skipped where they are not installed.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.compiler import main_function
from qmlir.ir.upstream.tosa.shape import IdentityOp
from qmlir.ir.weights import WeightsMode, module_text
from tests.conftest import ROOT
from tests.interop.upstream import Array

VERSION = "2026.8.0"
"""The release of tosa-tools: TOSA 1.1, which contains 1.0."""

FOLDER = ROOT / "build" / "tosa-tools"


def install() -> Path:
    """Installs tosa-tools into `FOLDER` unless it is there, and returns the folder of its programs."""
    if (found := _programs(FOLDER)) is None:
        venv.create(FOLDER, with_pip=True, clear=True)
        python = FOLDER / "bin" / "python"
        # The programs are in the package; its dependencies are for Arm's own tests, which are not run.
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", f"tosa-tools=={VERSION}"]
        subprocess.run(command, check=True)
        found = _programs(FOLDER)
    assert found is not None
    return found


def _programs(environment: Path) -> Path | None:
    """The folder of the package's programs in an environment; None without them."""
    return next((f for f in environment.glob("lib/python*/site-packages/bin") if (f / "tosa.fbs").exists()), None)


def programs() -> Path:
    """The folder of the programs; skips the test where they are not installed."""
    found = _programs(Path(os.environ.get("QMLIR_TOSA_TOOLS", FOLDER)))
    if found is None:
        pytest.skip("tosa-tools is not installed: python -m tests.interop.reference_model")
    return found


def computed(module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
    """The results of a module in TOSA 1.0 by the reference model; unsigned inputs become signed ones of the same bits.

    The test fails if tosa-opt rejects the module, or if the reference model calls a result unpredictable.
    """
    tools, module = programs(), module.clone()
    count = _prepare(main_function(module))
    given = [x.view(f"i{x.itemsize}") if x.dtype.kind == "u" else x for x in inputs] or [np.zeros(1, np.int8)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        text = module_text(module, WeightsMode.INLINE)
        _run([tools / "tosa-opt", "--tosa-serialize", f"--tosa-flatbuffer-filename={folder}/net.tosa"], folder, text)
        for i, x in enumerate(given):
            np.save(folder / f"in{i}.npy", x)
        options = {
            "operator_fbs": str(tools / "tosa.fbs"),
            "tosa_file": "net.tosa",
            "flatbuffer_dir": name,
            "output_dir": name,
            "ifm_name": ",".join(f"TosaInput_{i}" for i in range(len(given))),
            "ifm_file": ",".join(f"in{i}.npy" for i in range(len(given))),
            "ofm_name": ",".join(f"TosaOutput_{i}" for i in range(count)),
            "ofm_file": ",".join(f"out{i}.npy" for i in range(count)),
            "tosa_level": "NONE",  # levels limit sizes, not meanings
        }
        _run([tools / "tosa_reference_model", *(f"--{key}={value}" for key, value in options.items())], folder)
        return [_named(np.load(folder / f"out{i}.npy")) for i in range(count)]


def _named(x: Array) -> Array:
    """An array with a dtype: numpy's files hold bfloat16 as two bytes without one."""
    return x.view(ml_dtypes.bfloat16) if x.dtype == np.dtype("V2") else x


def tosa_opt(text: str, *flags: str) -> str:
    """What tosa-opt, an mlir-opt of a later LLVM, prints for a module."""
    command = [programs() / "tosa-opt", *flags]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return done.stdout


def _prepare(function: func.FuncOp) -> int:
    """Gives a function the form that the tools need, and returns the number of its results.

    The serializer names a result `TosaOutput_0` only if an operation computes it, and the reference model runs no
    network without inputs: results pass through identities, and a function without arguments gets one.
    """
    block = function.body.block
    last = block.last_op
    assert isinstance(last, func.ReturnOp)
    for index, value in enumerate(list(last.operands)):
        same = IdentityOp.build(operands=[value], result_types=[value.type])
        Rewriter.insert_op(same, InsertPoint.before(last))
        last.operands[index] = same.output
    if not block.args:
        block.insert_arg(TensorType(i8, [1]), 0)
        function.update_function_type()
    return len(last.operands)


def _run(command: Sequence[object], folder: Path, text: str | None = None) -> None:
    done = subprocess.run(list(map(str, command)), input=text, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]


def signed(expected: Array) -> Array:
    """An expected result as the reference model returns it: unsigned integers as signed integers of the same bits."""
    return expected.view(f"i{expected.itemsize}") if expected.dtype.kind == "u" else expected


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")
