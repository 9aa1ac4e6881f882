"""The state of one compilation: xDSL's `Context` with qmlir's dialects, the target and the folder of the weights.

Dialects are registered by name and imported when their first operation is parsed, so that a driver starts fast. If
xDSL ever ships a dialect of the same name, qmlir's dialect wins.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect

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
    samples         calibration samples by the file that holds them, "" for samples that a caller gave as arrays; passes
                    replace them by those that they have read and checked
    policy          the `Policy` whose rules the quantizer follows, or None if its options name a policy
    applied         the rules that apply-policy has written, each with the operations that carry it
    """

    weights_folder: Path | None = None
    target: object | None = None
    samples: dict[str, Any] = field(default_factory=dict[str, Any])
    policy: object | None = None
    applied: list[Any] = field(default_factory=list[Any])

    def clone(self) -> "QmlirContext":
        """Returns a copy; dialects that the copy loads do not appear in this context."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        copies = {name: cast(Any, value).copy() for name, value in held.items() if isinstance(value, dict | list)}
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
