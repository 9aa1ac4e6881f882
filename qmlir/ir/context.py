"""The state of one compilation: xDSL's `Context` with qmlir's dialects, the target and the folder of the weights.

Dialects are registered by name and imported when their first operation is parsed, so that a driver starts fast. If
xDSL ever ships a dialect of the same name, qmlir's dialect wins. A plugin's dialect of a name that is taken is an error
when text uses the name.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect

from qmlir.plugins import DIALECTS as GROUP
from qmlir.plugins import plugin, plugins_in

DIALECTS = {
    "quant": "qmlir.dialects.quant:QUANT",
    "calib": "qmlir.dialects.calib:CALIB",
    "qmlir": "qmlir.dialects.qmlir:QMLIR",
    "nn": "qmlir.dialects.nn:NN",
    "custom": "qmlir.dialects.custom:CUSTOM",
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
    read_weights    reads an array of a side file (weights.py), in place of the folder; None to read from the folder
    target          the `Target` the compiler chose, or None before it has chosen
    samples         calibration samples by the file that holds them, "" for samples that a caller gave as arrays; passes
                    replace them by those that they have read and checked
    samples_budget  bytes that the values of all samples may take at once; None for the default (side_by_side.py)
    policy          the `Policy` whose rules the quantizer follows, or None if its options name a policy
    applied         the rules that apply-policy has written, each with the operations that carry it
    first_entry     what this entry of a network takes from the first one, or hands to others; None for a network alone
    idle            why a setting of a rule has no effect on an operation or input, by its name and the setting
    """

    weights_folder: Path | None = None
    read_weights: Callable[..., Any] | None = None
    target: object | None = None
    samples: dict[str, Any] = field(default_factory=dict[str, Any])
    samples_budget: int | None = None
    policy: object | None = None
    applied: list[Any] = field(default_factory=list[Any])
    first_entry: object | None = None
    idle: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def clone(self) -> "QmlirContext":
        """Returns a copy; dialects that the copy loads do not appear in this context."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        copies = {name: cast(Any, value).copy() for name, value in held.items() if isinstance(value, dict | list)}
        return replace(self, **copies)


def dialect_of(reference: str) -> Callable[[], Dialect]:
    """Returns a function that imports the dialect at `module:attribute`."""

    def load() -> Dialect:
        module, _, attribute = reference.partition(":")
        dialect = getattr(import_module(module), attribute)
        assert isinstance(dialect, Dialect)
        return dialect

    return load


def _of_plugin(name: str, built_in: Collection[str]) -> Callable[[], Dialect]:
    """Returns what loads the dialect of a plugin when its first operation is parsed; a fault is raised then.

    Raises:
        PluginError: The plugin does not import, is no dialect of its name, or takes a name that is taken.
    """

    def load() -> Dialect:
        found = plugin(GROUP, name, built_in)
        assert found is not None
        loaded = found.load()
        if not isinstance(loaded, Dialect) or loaded.name != name:
            raise found.fault("must be an xdsl.ir.Dialect of the entry point's name", got=repr(loaded))
        return loaded

    return load


def make_context() -> QmlirContext:
    """Returns a fresh context that knows every dialect of xDSL, of qmlir and of the installed plugins."""
    context = QmlirContext()
    known = {**get_all_dialects(), **{n: dialect_of(r) for n, r in DIALECTS.items()}}
    others = {name: _of_plugin(name, known) for name in plugins_in(GROUP)}
    for name, factory in {**known, **others}.items():
        context.register_dialect(name, factory)
    return context
