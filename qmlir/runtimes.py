"""Whose rounding a network follows: for each runtime whose bits can be had, one table from operation to rounding.

A module says so in its attribute `qmlir.numerics`; without one the target's own contract holds everywhere. What is
listed for onnxruntime was measured against its CPU provider: a contraction's accumulator is converted to float32,
multiplied by x_scale · w_scale / y_scale in float32, rounded half to even, and then the zero point is added; a product
adds it before; a sum is made of two fused multiply-adds; quantization divides in float32.

Its operators on integers, QLinearConv and the like, saturate where u8 meets s8 on processors without VNNI, and models
were published with what they then give: `onnxruntime` does so too, `onnxruntime-vnni` computes the sums exactly. A
model in floats between casts (QDQ) never saturates here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from xdsl.dialects.builtin import ModuleOp, StringAttr

from qmlir.dialects.qmlir import NUMERICS
from qmlir.errors import OptionError, PipelineError
from qmlir.near_misses import near_misses

Runtime = Literal["default", "onnxruntime", "onnxruntime-vnni"]


@dataclass(frozen=True)
class Rounding:
    """How the result of an operation is rounded.

    contract  a name in numerics.CONTRACTS
    float32   whether factors between scales, divisions and functions of one element are computed in float32
    pairs     whether products of u8 by s8 are added in pairs that saturate at 16 bits, where the source model's
              operator is one on integers
    """

    contract: str
    float32: bool = False
    pairs: bool = False


FLOAT = Rounding("float_even", float32=True)
PAIRS = Rounding("float_even", float32=True, pairs=True)

_FUNCTIONS = (
    "relu", "clamp", "requantize", "abs", "neg", "sign", "floor", "ceil", "round", "sqrt", "reciprocal", "exp", "log",
    "erf", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sin", "cos", "tan", "sigmoid", "tanh",
    "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "elu", "selu", "celu", "softplus", "softsign", "mish", "swish",
    "thresholded_relu", "shrink",
)  # fmt: skip
"""Functions of one element: tables of what they are in float32."""

ONNXRUNTIME: Mapping[str, Rounding] = {
    "nn.conv2d": PAIRS,
    "nn.depthwise_conv2d": FLOAT,
    "nn.fully_connected": PAIRS,
    "nn.matmul": FLOAT,
    "nn.global_average_pool": FLOAT,
    "nn.add": FLOAT,
    "nn.mul": Rounding("float_sum", float32=True),
    "quant.qcast": FLOAT,
    **dict.fromkeys((f"nn.{function}" for function in _FUNCTIONS), FLOAT),
}

RUNTIMES: Mapping[str, Mapping[str, Rounding]] = {
    "default": {},
    "onnxruntime": ONNXRUNTIME,
    "onnxruntime-vnni": {operation: replace(rounding, pairs=False) for operation, rounding in ONNXRUNTIME.items()},
}
"""Runtime → operation → rounding; what is not listed follows the target."""


def rounding_of(operation: str, runtime: str, contract: str) -> Rounding:
    """How a runtime rounds an operation, where the target's contract holds for what its table does not list."""
    return RUNTIMES[runtime].get(operation, Rounding(contract))


def runtime_of(module: ModuleOp) -> str:
    """The runtime whose rounding a module follows.

    Raises:
        PipelineError: Its attribute names none that is known.
    """
    attribute = module.attributes.get(NUMERICS)
    name = attribute.data if isinstance(attribute, StringAttr) else "default" if attribute is None else str(attribute)
    if name not in RUNTIMES:
        raise PipelineError(
            "the module", f"must have one of {', '.join(RUNTIMES)} as {NUMERICS}", got=name,
            remedy="remove the attribute for the target's own rounding",
        )  # fmt: skip
    return name


def follow(module: ModuleOp, runtime: str) -> None:
    """Makes a module follow a runtime's rounding.

    Raises:
        OptionError: There is no such runtime; names near misses.
    """
    known = get_args(Runtime)
    if runtime not in known:
        raise OptionError(
            "numerics", f"must be one of {', '.join(known)}", got=runtime, remedy=near_misses(runtime, list(known))
        )
    if runtime == "default":
        module.attributes.pop(NUMERICS, None)
    else:
        module.attributes[NUMERICS] = StringAttr(runtime)
