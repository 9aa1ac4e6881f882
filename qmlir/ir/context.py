"""The state of one compilation: xDSL's `Context` with qmlir's dialects, the target and the folder of the weights."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect

from qmlir.errors import OptionError

# ---------------------------------------------------------------------------------------------------------------
# A target as data: the operations it computes in integers, their storage types, and its rounding contract.
#
# Targets are read from qmlir/targets/*.toml. The quantizer and the lowering ask them; neither knows a target by name.


@dataclass(frozen=True)
class Target:
    """The limits of a machine.

    name          as given to `--target`
    contract      the rounding contract of its requantizations
    integer       operation name → storage types ("i8", "u8", "i16") of its data that have an integer form
    floating      operation name → why it has no integer form
    sum_bits      bits of the largest sums of products that the machine can requantize
    least_factor  least factor between the scales of sums and results; smaller factors need unsupported shifts
    moves_bias    whether biases of 8 and 16 bits are shifted left to the steps of the sums, by one shift for a layer
    """

    name: str
    contract: str
    integer: dict[str, tuple[str, ...]]
    floating: dict[str, str]
    sum_bits: int = 32
    least_factor: float = 0.0
    moves_bias: bool = False

    def why_float(self, operation: str, storage: str) -> str | None:
        """Says why an operation cannot run in integers on data of this storage type; None if it can."""
        if operation in self.floating:
            return self.floating[operation]
        if operation not in self.integer:
            return f"target {self.name} has no integer form of it"
        if storage not in self.integer[operation]:
            return f"target {self.name} computes it on {', '.join(self.integer[operation])}, not on {storage}"
        return None

    def refusal(self, operation: str, storage: str) -> tuple[str, str] | None:
        """Returns a ledger code and a reason if an operation cannot run in integers on data of this storage type.

        The code is `precision` if another storage type is supported, else `target`. Returns None if it can run.
        """
        if (reason := self.why_float(operation, storage)) is None:
            return None
        return "precision" if operation in self.integer and operation not in self.floating else "target", reason


@cache
def load_target(name: str = "cpu") -> Target:
    """Returns the shipped target of that name; device files in the same folder have another form (devices/)."""
    files = [f for f in (resources.files("qmlir") / "targets").iterdir() if f.name.endswith(".toml")]
    tables: dict[str, dict[str, Any]] = {
        f.name.removesuffix(".toml"): tomllib.loads(f.read_text("utf-8")) for f in files
    }
    known = sorted(name for name, table in tables.items() if "integer" in table)
    if name not in known:
        raise OptionError("target", f"must be one of {', '.join(known)}", got=name)
    data = tables[name]
    integer = {op: tuple(types) for op, types in data["integer"].items()}
    return Target(data["name"], data["contract"], integer, dict(data["float"]), data.get("sum_bits", 32))


# ---------------------------------------------------------------------------------------------------------------
# The state of one compilation: xDSL's `Context` with qmlir's dialects, the target and the folder of the weights.
#
# Dialects are registered by name and imported when their first operation is parsed, so that a driver starts fast. If
# xDSL ever ships a dialect of the same name, qmlir's dialect wins.


DIALECTS = {
    "quant": "qmlir.dialects.quant:QUANT",
    "calib": "qmlir.dialects.calib:CALIB",
    "qmlir": "qmlir.dialects.qmlir:QMLIR",
    "nn": "qmlir.dialects.nn:NN",
    "qint": "qmlir.dialects.qint:QINT",
    "simd": "qmlir.dialects.simd:SIMD",
    "llvm": "qmlir.ir.upstream.llvm:LLVM",
    "arith": "qmlir.ir.upstream.arith:ARITH",
    "tensor": "qmlir.ir.upstream.tensor:TENSOR",
    "shape": "qmlir.ir.upstream.shape:SHAPE",
    "npu": "qmlir.dialects.npu:NPU",
    "tosa": "qmlir.ir.upstream.tosa:TOSA",
}
"""qmlir's dialects: name → `module:attribute`, imported on first use."""


@dataclass
class QmlirContext(Context):
    """The facts about a compilation that passes and the parser may use.

    weights_folder  the folder of the parsed module's side files; None for the working directory
    target          the `Target` the compiler chose, or None before it has chosen
    """

    weights_folder: Path | None = None
    target: Target | None = None

    def clone(self) -> "QmlirContext":
        """Returns a copy; dialects that the copy loads do not appear in this context."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        copies = {name: cast(dict[str, Any], value).copy() for name, value in held.items() if isinstance(value, dict)}
        return replace(self, **copies)


def _lazily(reference: str) -> Callable[[], Dialect]:
    def load() -> Dialect:
        module, _, attribute = reference.partition(":")
        dialect = getattr(import_module(module), attribute)
        assert isinstance(dialect, Dialect)
        return dialect

    return load


def make_context() -> QmlirContext:
    """Returns a fresh context that knows every dialect of xDSL and of qmlir."""
    context = QmlirContext()
    for name, factory in {**get_all_dialects(), **{n: _lazily(r) for n, r in DIALECTS.items()}}.items():
        context.register_dialect(name, factory)
    return context
