"""Reads the type of an input as users give it: the text between the angle brackets of MLIR's tensor type.

1x3x224x224                                  float32, by default
8xi64                                        another element type
4x2x!quant.uniform<u8:f32, 0.5:128>          integers that stand for real numbers, as integer operators read them
"""

import re
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError, VerifyException

from qmlir.errors import OptionError, QmlirError, UnsupportedError
from qmlir.frontends.function import sized
from qmlir.ir.context import make_context
from qmlir.ir.upstream.source_parser import SourceParser, one_line

_DIMENSIONS = re.compile(r"\d+(x\d+)*", re.ASCII)

LONGEST = 100_000
"""The most characters of a type."""


def tensor_type(name: str, text: str) -> TensorType[Attribute]:
    """Returns the type that a text gives an input.

    Raises:
        OptionError: The text is no type of a tensor with static dimensions; the error names the input.
    """
    written = f"{text}xf32" if _DIMENSIONS.fullmatch(text) else text
    try:
        if len(text) > LONGEST:
            raise ValueError("a text that is too long")
        whole = f"tensor<{written}>"
        parser = SourceParser(make_context(), whole, "shape")
        type: Attribute = parser.parse_type()
        if not isinstance(type, TensorType) or parser.pos < len(whole):
            raise ValueError("another type")
        found = cast(TensorType[Attribute], type)
        if min(found.get_shape(), default=0) < 0:
            raise ValueError("a dimension without a size")
        sized(found.get_shape())
    except (ParseError, VerifyException, ValueError, RecursionError, QmlirError) as error:
        got = error.need if isinstance(error, UnsupportedError) else one_line(error)
        raise OptionError(
            f"shape {name}", "must be dimensions with an element type behind them, such as 1x3x224x224 or 8xi64",
            got=f"{text}: {got}",
        ) from None  # fmt: skip
    return found
