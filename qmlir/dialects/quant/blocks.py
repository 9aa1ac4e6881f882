"""Checks that the blocks of a sub-channel type fit the tensor they quantize: upstream's rules and error messages."""

from typing import TypeAlias, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnrankedTensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.foreign import SubChannelType

Shape: TypeAlias = tuple[int | None, ...] | None
"""The shape of a ranked tensor, `UNRANKED`, or None for a scalar."""

UNRANKED: tuple[None] = (None,)
"""The shape of a tensor of unknown rank."""


def shape_of(type: Attribute) -> Shape:
    """Returns the shape of a tensor or a scalar type."""
    if isinstance(type, TensorType):
        return cast(TensorType[Attribute], type).get_shape()
    return UNRANKED if isinstance(type, UnrankedTensorType) else None


def verify_blocks(op_name: str, blocks: SubChannelType, shape: Shape) -> None:
    """Checks that a sub-channel type can be the element type of a tensor of this shape.

    Raises:
        VerifyException: The type does not fit the tensor; the message names the operation.
    """
    if shape is None:
        raise VerifyException(f"'{op_name}' scalar types may not use sub-channel quantization: got {blocks}")
    if shape == UNRANKED:
        raise VerifyException(f"'{op_name}' tensor containing the sub-channel quantized type must be ranked")
    lengths = cast(tuple[int, ...], shape)
    rank = len(lengths)
    counts = [1] * rank  # a dimension without a block size is one block
    for axis, size in blocks.block_sizes:
        if axis >= rank:
            raise VerifyException(f"'{op_name}' quantized dimension {axis} must be less than tensor rank {rank}")
        if lengths[axis] != DYNAMIC_INDEX and lengths[axis] % size != 0:
            raise VerifyException(
                f"'{op_name}' tensor dimension size {lengths[axis]} at axis {axis} "
                f"must be divisible by the corresponding block size {size}"
            )
        counts[axis] = DYNAMIC_INDEX if lengths[axis] == DYNAMIC_INDEX else lengths[axis] // size
    if 0 in lengths:
        raise VerifyException(f"'{op_name}' tensor dimension size of zero is not allowed with sub-channel quantization")
    if len(blocks.shape) != rank:
        raise VerifyException(
            f"'{op_name}' Rank of scales {len(blocks.shape)} must match the rank of the tensor {rank}"
        )
    for axis, (count, there) in enumerate(zip(counts, blocks.shape, strict=True)):
        if count not in (DYNAMIC_INDEX, there):
            raise VerifyException(
                f"'{op_name}' dimension size {there} of scales tensor at axis {axis} should match "
                f"(tensor dimension at axis / block sizes at axis) = {count}"
            )
