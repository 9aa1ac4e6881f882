"""Upstream's tools: `mlir-opt` and `mlir-translate`, and IREE as a compiler that runs what it reads.

`mlir-opt` is $QMLIR_MLIR_OPT, else mlir-opt-19 or mlir-opt on the PATH, and so is `mlir-translate`; IREE comes with
`pip install qmlir[interop]`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.compiler import Pipeline
from qmlir.ir.weights import WeightsMode, module_text

Array = npt.NDArray[Any]


def linalg_text(module: ModuleOp, weights: WeightsMode = WeightsMode.INLINE) -> str:
    """A module on the integer level as linalg."""
    return module_text(Pipeline("qint-to-linalg")(module), weights)


def tosa_text(module: ModuleOp, version: str = "1.0", weights: WeightsMode = WeightsMode.INLINE) -> str:
    """A module on the integer level as tosa."""
    return module_text(Pipeline(("qint-to-tosa", {"version": version}))(module), weights)


def mlir_opt(text: str, *flags: str) -> str:
    """What mlir-opt prints for a module; the test fails if it refuses it."""
    return _printed("mlir-opt", text, flags)


def llvm_ir(text: str, *flags: str) -> str:
    """What mlir-translate makes of a module in the llvm dialect; the test fails if it refuses it."""
    return _printed("mlir-translate", text, ["--mlir-to-llvmir", *flags])


def iree_opt(text: str, *flags: str) -> str:
    """What IREE's mlir-opt, some versions younger, prints for a module."""
    program = Path(sys.executable).with_name("iree-opt")
    if not program.exists():
        pytest.skip("IREE is not installed: pip install qmlir[interop]")
    done = subprocess.run([program, "-", *flags], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return done.stdout


def _printed(tool: str, text: str, flags: Sequence[str]) -> str:
    variable = f"QMLIR_{tool.upper().replace('-', '_')}"
    names = [os.environ.get(variable, ""), f"{tool}-19", tool]
    program = next((found for name in names if name and (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"there is no {tool}; install mlir-19-tools, or set {variable}")
    done = subprocess.run([program, *flags], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return done.stdout


class Compiled:
    """A module compiled by IREE for this processor; skips the test where IREE is not installed.

    It is told to leave f64 as it is, whatever its default: the casts compute in it.
    """

    def __init__(self, text: str, input_type: str = "auto"):
        compiler: Any = pytest.importorskip("iree.compiler", reason="IREE is not installed: pip install qmlir[interop]")
        runtime: Any = pytest.importorskip("iree.runtime", reason="IREE is not installed: pip install qmlir[interop]")
        flags = ["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"]
        binary = compiler.compile_str(text, target_backends=["llvm-cpu"], input_type=input_type, extra_args=flags)
        context = runtime.SystemContext(config=runtime.Config("local-sync"))
        context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, binary))
        self._functions: Any = context.modules.module

    def __call__(self, function: str, inputs: Sequence[Array]) -> list[Array]:
        """The results of a function."""
        results: Any = self._functions[function](*inputs)
        several = results if isinstance(results, list | tuple) else [results]
        return [np.asarray(r.to_host()) for r in several]


def assert_same_bits(got: Array, expected: Array) -> None:
    """Equal as bits, whatever the sign of the integers; any NaN equals any other."""
    if got.dtype.kind + expected.dtype.kind in ("iu", "ui"):
        got, expected = (a.view(f"i{a.itemsize}") for a in (got, expected))
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
