"""How tensors lie in a device's memories: of quantized ones their integers, dense."""

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.dtypes import dtype_of
from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.quant.types import UniformType


def stored_dtype(value: SSAValue) -> np.dtype[Any]:
    """Of the elements of a tensor as they lie in memory: of a quantized one its integers."""
    element = element_of(value)
    return np.dtype(element.numpy_dtype) if isinstance(element, UniformType) else dtype_of(element)


def stored_bytes(value: SSAValue) -> int:
    """Of a whole tensor."""
    return prod(shape_of(value)) * stored_dtype(value).itemsize
