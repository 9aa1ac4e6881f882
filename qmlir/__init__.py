"""A quantizing neural-network compiler on MLIR.

    module  = qmlir.load("model.onnx", bind={"batch_size": 1})
    profile = qmlir.profile(module, samples)
    q       = qmlir.quantize(module, profile, schema="symmetric", precision="int8")
    exe     = qmlir.compile(q)          # y = exe(x)
    ref     = qmlir.reference(q)        # the same callable, evaluated op by op in numpy

    q       = qmlir.quantize(module, profile, target="device.toml")
    npu     = qmlir.compile(q, target="device.toml")    # the same callable, simulated

Names are imported when first used, so that `import qmlir` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qmlir.ir.garbage import collected_rarely

if TYPE_CHECKING:
    __version__: str
    from qmlir.analysis.crosscheck import crosscheck
    from qmlir.analysis.data_free import data_free_profile
    from qmlir.analysis.differences import compare
    from qmlir.analysis.effects import effects
    from qmlir.analysis.error_budget import error_budgets
    from qmlir.analysis.explore import Workload, explore
    from qmlir.analysis.measured import quantize
    from qmlir.analysis.prefix import prefixed
    from qmlir.analysis.quality import quality
    from qmlir.analysis.scores import score
    from qmlir.analysis.tensors import analyze
    from qmlir.analysis.tune import tune
    from qmlir.cli.embedded.folder import bundle
    from qmlir.compiler import (
        Pipeline,
        decisions,
        export,
        load,
        load_program,
        profile,
        read_samples,
        reference,
        save,
        to_integers,
    )
    from qmlir.devices import Device, load_device
    from qmlir.devices.model.encoder import register_encoder
    from qmlir.errors import QmlirError
    from qmlir.ir.own_operators import register_op, scoped_ops
    from qmlir.numerics.calibration import choose_quantization, register_calibration
    from qmlir.numerics.roundings import register_rounding
    from qmlir.profiles.drift import profile_drift
    from qmlir.profiles.profile import Profile
    from qmlir.reports.notebooks import summary
    from qmlir.reports.report import report
    from qmlir.running.cached import compile
    from qmlir.settings.policy import Policy, Rule

__all__ = [
    "Device",
    "Pipeline",
    "Policy",
    "Profile",
    "QmlirError",
    "Rule",
    "Workload",
    "analyze",
    "bundle",
    "choose_quantization",
    "compare",
    "compile",
    "crosscheck",
    "data_free_profile",
    "decisions",
    "effects",
    "error_budgets",
    "explore",
    "export",
    "load",
    "load_device",
    "load_program",
    "prefixed",
    "profile",
    "profile_drift",
    "quality",
    "quantize",
    "read_samples",
    "reference",
    "register_calibration",
    "register_encoder",
    "register_op",
    "register_rounding",
    "report",
    "save",
    "scoped_ops",
    "score",
    "summary",
    "to_integers",
    "tune",
]

_HOMES = {
    "Device": "qmlir.devices",
    "Policy": "qmlir.settings.policy",
    "Profile": "qmlir.profiles.profile",
    "QmlirError": "qmlir.errors",
    "Rule": "qmlir.settings.policy",
    "analyze": "qmlir.analysis.tensors",
    "bundle": "qmlir.cli.embedded.folder",
    "compare": "qmlir.analysis.differences",
    "compile": "qmlir.running.cached",
    "crosscheck": "qmlir.analysis.crosscheck",
    "data_free_profile": "qmlir.analysis.data_free",
    "choose_quantization": "qmlir.numerics.calibration",
    "register_calibration": "qmlir.numerics.calibration",
    "register_rounding": "qmlir.numerics.roundings",
    "register_encoder": "qmlir.devices.model.encoder",
    "summary": "qmlir.reports.notebooks",
    "effects": "qmlir.analysis.effects",
    "tune": "qmlir.analysis.tune",
    "Workload": "qmlir.analysis.explore",
    "error_budgets": "qmlir.analysis.error_budget",
    "explore": "qmlir.analysis.explore",
    "register_op": "qmlir.ir.own_operators",
    "scoped_ops": "qmlir.ir.own_operators",
    "report": "qmlir.reports.report",
    "load_device": "qmlir.devices",
    "prefixed": "qmlir.analysis.prefix",
    "profile_drift": "qmlir.profiles.drift",
    "quality": "qmlir.analysis.quality",
    "quantize": "qmlir.analysis.measured",
    "score": "qmlir.analysis.scores",
}


def load_ipython_extension(shell: Any) -> None:
    """Makes IPython show modules as tables: `%load_ext qmlir`."""

    def html(module: Any) -> Any:
        return import_module("qmlir.reports.notebooks").module_html(module)

    def text(module: Any, printer: Any, cycle: bool) -> None:
        import_module("qmlir.reports.notebooks").module_text(module, printer, cycle)

    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type_by_name("xdsl.dialects.builtin", "ModuleOp", html)
    formatters["text/plain"].for_type_by_name("xdsl.dialects.builtin", "ModuleOp", text)


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("qmlir")
    if name not in __all__:
        raise AttributeError(f"module 'qmlir' has no attribute {name!r}")
    with collected_rarely:  # imports make classes by the hundred, which stay
        value = getattr(import_module(_HOMES.get(name, "qmlir.compiler")), name)
    globals()[name] = value
    return value
