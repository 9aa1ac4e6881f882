"""Types with the same shape but other elements, as before and after a cast: scalars, ranked and unranked tensors."""

from typing import cast

from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from qmlir.dialects.quant.foreign import any_quantized_element


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """Returns a type with the shape of `type` and elements of type `element`; for a scalar, `element` itself."""
    if isinstance(type, TensorType):
        tensor = cast(TensorType[Attribute], type)
        return TensorType(element, tensor.get_shape(), tensor.encoding)
    return UnrankedTensorType(element) if isinstance(type, UnrankedTensorType) else element


def stored_type(type: Attribute) -> Attribute:
    """Returns a quantized scalar or tensor type with its storage type as elements; other types unchanged.

    The elements are `NoneAttr` if the quantized type has no storage type (`!quant.calibrated`).
    """
    quantized = any_quantized_element(type)
    return type if quantized is None else with_element(type, quantized.storage_type)
