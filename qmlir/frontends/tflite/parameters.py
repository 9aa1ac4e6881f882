"""Reads and checks a tensor's scales and zero points in the file, and returns them as a quantized type."""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, QmlirWarning
from qmlir.ir.interfaces import Array, Shape
from qmlir.ir.types import element_type_of

QUANTIZED = {np.dtype(t) for t in (np.int8, np.uint8, np.int16, np.int32)}
"""The storage types that make a tensor with scales quantized."""

MISPLACED = (
    "{}: the scales of {} are said to count along an axis that such a tensor lacks; they are taken as one scale for "
    "each element, in order"
)


def malformed(file: str, need: str, got: object) -> FileError:
    """Returns the error for a file that contradicts itself."""
    return FileError(file, need, got=str(got), remedy="convert the model again")


def plain(value: Any) -> Array:
    """Returns a vector that the bindings read; empty if the field is absent, for which the bindings return 0."""
    return np.zeros(0, np.int64) if isinstance(value, int) else value


def wide_scales(parameters: Any) -> tuple[float, ...]:
    """Returns the scales of a tensor of 64-bit integers; empty if the file has no scales or one of them is 0."""
    scales = plain(parameters.ScaleAsNumpy()) if parameters is not None else np.zeros(0)
    return tuple(scales.tolist()) if scales.all() else ()


@dataclass
class Parameters:
    """Reads the scales and zero points of one file's tensors.

    file       the name of the file in errors
    misplaced  the names of the tensors whose quantized axis differs from the file's
    """

    file: str
    misplaced: list[str] = field(default_factory=list[str])

    def type_of(self, parameters: Any, name: str, shape: Shape, dtype: np.dtype[Any] | None) -> UniformType | None:
        """Returns the quantized type of a tensor; None for plain numbers.

        Args:
            parameters: The table QuantizationParameters of the file, or None.
            name: The tensor's name.
            shape: The tensor's dimensions.
            dtype: The type of the stored integers; None for a type that is not read.

        Raises:
            FileError: The parameters do not follow the schema.
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
        """Warns of the tensors whose quantized axis differs from the file's."""
        if self.misplaced:
            first, *others = self.misplaced
            which = f'tensor "{first}"' + (f" and {len(others)} more" if others else "")
            warnings.warn(MISPLACED.format(self.file, which), QmlirWarning, stacklevel=2)

    def _points(self, points: Array, scales: int, name: str, dtype: np.dtype[Any]) -> Array:
        """Returns one zero point for each scale; raises FileError if their number or range is wrong."""
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
        """Returns the axis along which a tensor has several scales.

        Old converters give a bias the axis of its weights, which a vector lacks. If a tensor has one scale for each
        element, the axis is the only dimension that is not 1, whatever the file says.
        """
        if 0 <= said < len(shape) and shape[said] == scales:
            return said
        if math.prod(shape) != scales or scales not in shape:
            need = f'tensor "{name}" of shape {list(shape)} must have a scale for each index of its quantized axis'
            raise malformed(self.file, need, f"{scales} along axis {said}")
        self.misplaced.append(name)
        return shape.index(scales)
