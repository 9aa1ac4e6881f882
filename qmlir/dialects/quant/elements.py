"""Types of one shape with other elements: a scalar, a tensor or a tensor of unknown rank, before and after a cast."""

from typing import cast

from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from qmlir.dialects.quant.foreign import any_quantized_element


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """The type of `type`'s shape whose elements are `element`s; of a scalar, `element` itself."""
    if isinstance(type, TensorType):
        tensor = cast(TensorType[Attribute], type)
        return TensorType(element, tensor.get_shape(), tensor.encoding)
    return UnrankedTensorType(element) if isinstance(type, UnrankedTensorType) else element


def stored_type(type: Attribute) -> Attribute:
    """The type of what a quantized scalar or tensor stores; one that is not quantized stays as it is.

    The elements are `NoneAttr` where the quantized type says nothing of storage.
    """
    quantized = any_quantized_element(type)
    return type if quantized is None else with_element(type, quantized.storage_type)
