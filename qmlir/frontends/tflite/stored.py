"""Moves the stored integers of quantized constants at import, as LiteRT's operators of movement do.

Such an operator copies bytes and leaves the meaning of the result to the result's own scales. So weights behind a
TRANSPOSE of a constant are constants, with a scale for each channel along the axis that the file states.
"""

from collections.abc import Sequence
from dataclasses import replace

from qmlir.dialects.quant.types import UniformType
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.tflite.reader import Tensor
from qmlir.ir.interfaces import Array

MOVING = frozenset(
    """CONCATENATION DENSIFY DEPTH_TO_SPACE EXPAND_DIMS GATHER GATHER_ND PACK RESHAPE REVERSE_V2 SLICE SPACE_TO_DEPTH
    SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TRANSPOSE UNPACK""".split()
)
"""Operators that put no new elements into their result, and none more than once but by an index."""

JOINING = frozenset({"CONCATENATION", "PACK"})
"""Those of them that change the scale of parts whose type is not the result's."""


def moves_stored(kind: str, inputs: Sequence[Value | None], outputs: Sequence[Tensor]) -> bool:
    """Whether an operator only moves the stored integers of quantized constants."""
    types = [t.type for t in outputs]
    found: list[UniformType] = [x.type for x in inputs if isinstance(x, Dequantized)]
    if kind not in MOVING or not found or not all(x is None or isinstance(x, Constant) for x in inputs):
        return False
    if kind in JOINING:
        return len(found) == len(inputs) and all(type == types[0] and type.axis is None for type in found)
    return all(type is not None and type.storage == found[0].storage for type in types)


def as_stored(inputs: Sequence[Value | None]) -> list[Value | None]:
    """Returns an operator's inputs with the stored integers in the place of quantized constants."""
    return [Constant(x.stored, x.name) if isinstance(x, Dequantized) else x for x in inputs]


def as_plain(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Returns an operator's outputs as tensors of plain integers."""
    return [replace(t, type=None) for t in outputs]


def restored(arrays: Sequence[Array], outputs: Sequence[Tensor], names: Sequence[str]) -> list[Value]:
    """Returns moved integers as quantized constants of the types that the file states for the outputs."""
    found = list[Value]()
    for array, tensor, name in zip(arrays, outputs, names, strict=True):
        assert tensor.type is not None
        found.append(Dequantized(array, tensor.type, name))
    return found
