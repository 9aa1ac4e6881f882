"""What `qmlir compile` writes: code, weights, and a C header that says how to call it."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.files import write_together

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
    """Writes `path` and, for an object file, its weights and its header beside it; returns what was written."""
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


def header(executable: "Executable", name: str) -> str:
    """The C header of a compiled network: sizes, tensors, and the entry's prototype."""
    prefix = re.sub(r"\W", "_", name).upper()
    sizes, signature = executable.sizes, executable.signature
    lines = [
        f"/* {name}: a compiled network. Weights and arena start on a multiple of {prefix}_ALIGNMENT bytes. */",
        "#pragma once",
        "#include <stdint.h>",
        "",
        f"#define {prefix}_ALIGNMENT 64",
        f"#define {prefix}_WEIGHTS_SIZE {sizes.weights}  /* bytes of {name}.weights.bin */",
        f"#define {prefix}_ARENA_SIZE {sizes.arena}  /* bytes of scratch memory; one arena for each call in flight */",
        "",
    ]
    for kind, specs in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        for i, spec in enumerate(specs):
            shape = "".join(f"[{n}]" for n in spec.shape)
            lines.append(f"/* {kind}[{i}]: {_C_TYPES[spec.dtype.name]} {shape}  {spec.name} */")
    lines += [
        f"void {executable.entry}(const uint8_t *weights, uint8_t *arena, const void *const *inputs, void *const *outputs);",
        "",
    ]
    return "\n".join(lines)
