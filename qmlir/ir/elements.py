"""Element types of tensors, and types with the same shape but other elements, as before and after a cast.

Code that must not know the quant dialect, such as the interface of tensor operations, sees a quantized type as a
`QuantizedElement`, and a type of stored integers as an `IntegerElement`.
"""

from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute


class QuantizedElement(ABC):
    """An element type whose values are stored as values of another type."""

    @property
    @abstractmethod
    def storage_type(self) -> Attribute:
        """The type of the stored values; `NoneAttr` if there is none."""


class IntegerElement(QuantizedElement, ABC):
    """An element type stored as integers, with one scale or with one for each index along an axis."""

    @property
    @abstractmethod
    def numpy_dtype(self) -> np.dtype[Any]:
        """The narrowest numpy integer that holds a stored integer."""

    @property
    @abstractmethod
    def axis(self) -> int | None:
        """The axis along which each index has a scale of its own; None for one scale."""

    @property
    @abstractmethod
    def scales(self) -> tuple[float, ...]:
        """The scales."""


def element_type(type: Attribute) -> Attribute:
    """Returns a tensor's element type, or a scalar type itself."""
    if isinstance(type, TensorType | UnrankedTensorType):
        return cast(TensorType[Attribute], type).element_type
    return type


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
    element = element_type(type)
    return with_element(type, element.storage_type) if isinstance(element, QuantizedElement) else type
