"""Writes the files of `qmlir compile`: code, weights, and a C header that declares the network's function."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr

from qmlir.cli.reserved_names import is_reserved
from qmlir.dialects.loops import CACHE_LINE
from qmlir.files.whole import write_together
from qmlir.ir.signature import TensorSpec

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable

_C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "unsigned char",
    **{f"int{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
}


def write_bundle(executable: "Executable", path: Path, emit: str) -> list[Path]:
    """Writes `path` and, for an object file, its weights and its header beside it; returns the paths written."""
    match emit:
        case "llvm-ir":
            contents = {path: executable.llvm_ir.encode()}
        case "asm":
            contents = {path: executable.assembly().encode()}
        case _:
            contents = {
                path.with_suffix(".weights.bin"): executable.weights.tobytes(),
                path.with_suffix(".h"): header(executable, path.stem).encode(),
                path: executable.object,
            }
    write_together({place: partial(_write, content) for place, content in contents.items()})
    return list(contents)


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def c_identifier(name: str) -> str:
    """Returns a name as a C identifier: `mnist-8` → `mnist_8`."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return word if re.match(r"[A-Za-z]", word) else f"net_{word}"


def entry_name(stem: str) -> str:
    """Returns the function name of a network compiled to a file of that stem; never a name of C or its library."""
    name = c_identifier(stem)
    return f"{name}_net" if is_reserved(name) else name


def name_entry(function: func.FuncOp, stem: str) -> None:
    """Names a network's function after the output file, so that it does not clash with a program's own `main`."""
    function.sym_name = StringAttr(entry_name(stem))


def comment(text: str) -> str:
    """Makes text safe for a C comment: no character can end the comment, join lines or start an escape."""
    return re.sub(r"[^A-Za-z0-9_ .,:;=+()\[\]<>@#$%&|~^!/-]", "_", text[:_LONGEST])


_LONGEST = 200
"""The most characters of a name that a comment shows."""


def header(executable: "Executable", stem: str) -> str:
    """Returns the C header of a compiled network: sizes, tensors, and the prototype of its function."""
    prefix, name = c_identifier(stem).upper(), executable.entry
    sizes, signature = executable.sizes, executable.signature
    lines = [
        f"/* {name}: a compiled network. Weights and arena start on a multiple of {prefix}_ALIGNMENT bytes. */",
        "#pragma once",
        "#include <stdint.h>",
        "",
        f"#define {prefix}_ALIGNMENT {CACHE_LINE}",
        f"#define {prefix}_WEIGHTS_SIZE {sizes.weights}  /* bytes of {comment(stem)}.weights.bin */",
        f"#define {prefix}_ARENA_SIZE {sizes.arena}  /* bytes of scratch memory; one arena for each call in flight */",
        "",
    ]
    for kind, specs in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        lines += [f"/* {kind}[{i}]: {_declared(spec)} */" for i, spec in enumerate(specs)]
    lines += [
        "",
        "#ifdef __cplusplus",
        'extern "C"',
        "#endif",
        f"void {name}(const uint8_t *weights, uint8_t *arena, const void *const *inputs, void *const *outputs);",
        "",
    ]
    return "\n".join(lines)


def _declared(spec: TensorSpec) -> str:
    shape = "".join(f"[{n}]" for n in spec.shape)
    known = _C_TYPES.get(spec.dtype.name)  # C lacks some types: then an integer of that size, and the type's name
    kind = known or f"{spec.dtype.name} in uint{8 * spec.dtype.itemsize}_t"
    return f"{kind} {shape}  {comment(spec.name)}"
