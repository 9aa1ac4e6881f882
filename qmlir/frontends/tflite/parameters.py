"""What the integers of a tensor stand for: its scales and zero points in the file as a quantized type, checked."""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.dtypes import element_type_of
from qmlir.dialects.interfaces import Array, Shape
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, QmlirWarning

QUANTIZED = {np.dtype(t) for t in (np.int8, np.uint8, np.int16, np.int32)}
"""Types whose integers stand for real numbers where the tensor has scales."""

MISPLACED = (
    "{}: the scales of {} are said to count along an axis that such a tensor lacks; they are taken as one scale for "
    "each element, in order"
)


def malformed(file: str, need: str, got: object) -> FileError:
    """The error of a file that says of itself what cannot be."""
    return FileError(file, need, got=str(got), remedy="convert the model again")


def plain(value: Any) -> Array:
    """A vector that the bindings return as 0 where there is none."""
    return np.zeros(0, np.int64) if isinstance(value, int) else value


def wide_scales(parameters: Any) -> tuple[float, ...]:
    """The scales of 64-bit integers; none where the file leaves them out, or says 0."""
    scales = plain(parameters.ScaleAsNumpy()) if parameters is not None else np.zeros(0)
    return tuple(scales.tolist()) if scales.all() else ()


@dataclass
class Parameters:
    """The scales and zero points of a file's tensors.

    file       what errors call it
    misplaced  names of the tensors whose quantized axis is another than the file says
    """

    file: str
    misplaced: list[str] = field(default_factory=list[str])

    def type_of(self, parameters: Any, name: str, shape: Shape, dtype: np.dtype[Any] | None) -> UniformType | None:
        """The quantized type of a tensor; None for plain numbers.

        Args:
            parameters: The table in the file, or None.
            name: The tensor's.
            shape: Its dimensions.
            dtype: Of its integers; None where it is not read.

        Raises:
            FileError: They are not what the schema says.
        """
        if parameters is None or dtype not in QUANTIZED:
            return None
        scales, points = plain(parameters.ScaleAsNumpy()), plain(parameters.ZeroPointAsNumpy())
        if not len(scales) or (dtype == np.int32 and not scales.all()):
            return None
        assert dtype is not None
        points = self._points(points, len(scales), name, dtype)
        storage = cast(IntegerType, element_type_of(dtype))
        try:
            if len(scales) == 1:
                return UniformType.per_tensor(storage, float(scales[0]), int(points[0]))
            axis = self._axis(parameters.QuantizedDimension(), name, shape, len(scales))
            return UniformType.per_axis(storage, axis, scales.tolist(), points.tolist())
        except VerifyException as error:
            need = f'the scales of tensor "{name}" must make a quantized type'
            raise malformed(self.file, need, " ".join(str(error).split())) from None

    def warn(self) -> None:
        """Says which tensors have another quantized axis than the file says."""
        if self.misplaced:
            first, *others = self.misplaced
            which = f'tensor "{first}"' + (f" and {len(others)} more" if others else "")
            warnings.warn(MISPLACED.format(self.file, which), QmlirWarning, stacklevel=2)

    def _points(self, points: Array, scales: int, name: str, dtype: np.dtype[Any]) -> Array:
        """One zero point for each scale."""
        points = np.zeros(scales, np.int64) if not len(points) else points
        points = np.repeat(points, scales) if len(points) == 1 else points
        if len(points) != scales:
            raise malformed(
                self.file, f'tensor "{name}" must have a zero point for each of {scales} scales', len(points)
            )
        limits = np.iinfo(dtype)
        if points.min() < limits.min or points.max() > limits.max:
            need = f'the zero points of tensor "{name}" must be numbers of {dtype}'
            raise malformed(self.file, need, points.tolist()[:8])
        return points

    def _axis(self, said: int, name: str, shape: Shape, scales: int) -> int:
        """The axis along which a tensor has several scales.

        Old converters give a bias the axis of its weights, which a vector has not. A tensor with one scale for each
        of its elements has one dimension that is not 1: that is the axis, whatever the file says.
        """
        if 0 <= said < len(shape) and shape[said] == scales:
            return said
        if math.prod(shape) != scales or scales not in shape:
            need = f'tensor "{name}" of shape {list(shape)} must have a scale for each index of its quantized axis'
            raise malformed(self.file, need, f"{scales} along axis {said}")
        self.misplaced.append(name)
        return shape.index(scales)
