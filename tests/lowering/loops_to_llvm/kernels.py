"""Runs a kernel written on the loops level: text, through plan-memory, loops-to-llvm and the JIT, to arrays."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from qmlir.backends.cpu import build
from qmlir.backends.cpu.jit import Executable
from qmlir.ir.context import make_context
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.lowering.loops_to_llvm.convert import LoopsToLLVMPass
from qmlir.transforms.loops.plan_memory import PlanMemoryPass

Array = npt.NDArray[Any]


def parsed(source: str) -> ModuleOp:
    """A verified module."""
    module = Parser(make_context(), source).parse_module()
    module.verify()
    return module


def lowered(source: str, features: str = "", bits: int = 64) -> ModuleOp:
    """A planned module in the llvm dialect, for processors with addresses of `bits`."""
    module = parsed(source)
    context = make_context()
    PlanMemoryPass().apply(context, module)
    module.verify()
    LoopsToLLVMPass(features, bits).apply(context, module)
    module.verify()
    return module


def executable(module: ModuleOp, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Executable:
    """Machine code of a lowered module."""
    return build(module, Signature(tuple(inputs), tuple(outputs)))


def with_main(kernel: str, inputs: int) -> str:
    """A kernel's text with an entry that passes its own arguments on."""
    module = parsed(kernel)
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    types = [str(arg.type) for arg in function.args]
    assert all(isinstance(arg.type, MemRefType) for arg in function.args)
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    passed = ", ".join(f"%a{i}" for i in range(len(types)))
    return f"""
func.func @main({arguments}) attributes {{qmlir.inputs = {inputs} : i64}} {{
  func.call @{function.sym_name.data}({passed}) : ({", ".join(types)}) -> ()
  func.return
}}
{kernel}
"""


def specs(prefix: str, arrays: Sequence[Array]) -> list[TensorSpec]:
    """Signatures of arrays, named by position."""
    return [TensorSpec(f"{prefix}{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]


@lru_cache(maxsize=1)
def _compiled(
    kernel: str, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], features: str
) -> Executable:
    """The machine code of a kernel; a test that runs it on one input after another compiles it once."""
    return executable(lowered(with_main(kernel, len(inputs)), features), inputs, outputs)


def run_kernel(kernel: str, *inputs: Array, out: Sequence[Array], features: str = "") -> list[Array]:
    """What a kernel `(inputs…, outputs…)` writes; `out` gives the outputs' shapes and dtypes."""
    exe = _compiled(kernel, tuple(specs("x", inputs)), tuple(specs("y", out)), features)
    result = exe({f"x{i}": a for i, a in enumerate(inputs)})
    return list(result.values()) if isinstance(result, dict) else [result]


def elementwise(operations: str, inputs: Sequence[tuple[str, int]], out: tuple[str, int]) -> str:
    """A kernel that applies `operations`, which read %0, %1, … and define %r, to whole vectors or to each element.

    inputs, out  element type and number of elements; one number for all
    """
    args = "".join(f"%m{i}: memref<{n}x{t}>, " for i, (t, n) in enumerate(inputs))
    loads = "\n".join(f"%{i} = memref.load %m{i}[%i] : memref<{n}x{t}>" for i, (t, n) in enumerate(inputs))
    element, count = out
    return f"""
func.func private @kernel({args}%y: memref<{count}x{element}>) {{
  %begin = arith.constant 0 : index
  %end = arith.constant {count} : index
  %step = arith.constant 1 : index
  scf.for %i = %begin to %end step %step {{
    {loads}
    {operations}
    memref.store %r, %y[%i] : memref<{count}x{element}>
  }}
  func.return
}}
"""


def vectorwise(operations: str, inputs: Sequence[tuple[str, int]], out: tuple[str, int]) -> str:
    """The same on vectors: %0, %1, … and %r are vectors of all elements."""
    args = "".join(f"%m{i}: memref<{n}x{t}>, " for i, (t, n) in enumerate(inputs))
    loads = "\n".join(
        f"%{i} = vector.load %m{i}[%c0] : memref<{n}x{t}>, vector<{n}x{t}>" for i, (t, n) in enumerate(inputs)
    )
    element, count = out
    return f"""
func.func private @kernel({args}%y: memref<{count}x{element}>) {{
  %c0 = arith.constant 0 : index
  {loads}
  {operations}
  vector.store %r, %y[%c0] : memref<{count}x{element}>, vector<{count}x{element}>
  func.return
}}
"""


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """A stand-in for an output."""
    return np.empty(shape, dtype)
