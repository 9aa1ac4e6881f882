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

if TYPE_CHECKING:
    from qmlir.analysis.tensors import analyze
    from qmlir.cached import compile
    from qmlir.compiler import (
        Pipeline,
        export,
        load,
        load_program,
        profile,
        quantize,
        reference,
        save,
        to_integers,
    )
    from qmlir.errors import QmlirError
    from qmlir.numerics.calibration import choose_quantization
    from qmlir.policies.ledger import decisions
    from qmlir.policies.policy import Policy, Rule
    from qmlir.profiles.profile import Profile

__all__ = [
    "Pipeline",
    "Policy",
    "Profile",
    "QmlirError",
    "Rule",
    "analyze",
    "choose_quantization",
    "compile",
    "decisions",
    "export",
    "load",
    "load_program",
    "profile",
    "quantize",
    "reference",
    "save",
    "to_integers",
]

_HOMES = {
    "Policy": "qmlir.policies.policy",
    "Profile": "qmlir.profiles.profile",
    "QmlirError": "qmlir.errors",
    "Rule": "qmlir.policies.policy",
    "analyze": "qmlir.analysis.tensors",
    "compile": "qmlir.cached",
    "choose_quantization": "qmlir.numerics.calibration",
    "decisions": "qmlir.policies.ledger",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'qmlir' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "qmlir.compiler")), name)
    globals()[name] = value
    return value
