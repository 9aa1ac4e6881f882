"""Small quantized networks as text, for exporters of any format."""

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.ir.context import make_context
from qmlir.ir.interfaces import Array
from qmlir.ir.source import parse_text

I8, U8, I16 = "!quant.uniform<i8:f32, 0.5:-3>", "!quant.uniform<u8:f32, 0.5:125>", "!quant.uniform<i16:f32, 0.015625>"


def network(text: str) -> ModuleOp:
    """A module from the text of its function."""
    module = parse_text(make_context(), f"builtin.module {{ {text} }}", "test")
    module.verify()
    return module


def unary(element: str, operation: str, more: str = "", result: str = "", shape: str = "2x3x4") -> ModuleOp:
    """One operation of one operand on a quantized type, between casts.

    Args:
        element: The quantized type.
        operation: Its name.
        more: Its attributes.
        result: Another quantized type for its result.
        shape: Of both.
    """
    x, y = f"tensor<{shape}x{element}>", f"tensor<{shape}x{result or element}>"
    return network(f"""
      func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
        %q = quant.qcast %x : tensor<{shape}xf32> to {x}
        %r = {operation} %q {more} : {x} -> {y}
        %y = quant.dcast %r : {y} to tensor<{shape}xf32>
        func.return %y : tensor<{shape}xf32>
      }}""")


def numbers(*shape: int) -> Array:
    """What these types hold, and a little beyond, float32."""
    return np.random.default_rng(0).uniform(-40, 40, shape).astype(np.float32)
