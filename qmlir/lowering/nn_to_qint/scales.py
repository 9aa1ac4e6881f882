"""From scales to integers: multipliers, shifts, clamp limits and the proof that a sum fits its accumulator."""

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from qmlir.dialects.interfaces import element_of
from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.qint import RequantizeOp
from qmlir.dialects.qint.base import int32, int32s
from qmlir.dialects.quant import numerics
from qmlir.dialects.quant.types import UniformType

ACCUMULATOR_MAX = 2**31 - 1


class NoIntegerForm(Exception):
    """An operation on quantized types that has no integer form: a reason code of the ledger and a sentence."""

    def __init__(self, code: str, reason: str):
        super().__init__(reason)
        self.code, self.reason = code, reason


def uniform(value: SSAValue) -> UniformType:
    """The quantized element type of a value known to have one."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    return element


def per_tensor(value: SSAValue) -> UniformType:
    """The element type of a value that must have one scale."""
    element = uniform(value)
    if element.is_per_axis:
        raise NoIntegerForm("target", "activations with a scale for each channel have no integer form")
    return element


def limits(op: object, result: UniformType) -> tuple[int, int]:
    """The stored integers between which a result is clamped: its storage range, narrowed by a fused clamp."""
    low, high = result.storage_min, result.storage_max
    if isinstance(op, Clamped):
        lower, upper = op.bounds()
        if lower is not None:
            low = _stored(lower, result)
        if upper is not None:
            high = _stored(upper, result)
    return low, high


def _stored(real: float, element: UniformType) -> int:
    """The stored integer nearest to a real bound, within the storage range."""
    stored = np.rint(np.float64(real) / element.scale) + element.zero_point
    return int(np.clip(stored, element.storage_min, element.storage_max))


def requantize(
    source: SSAValue,
    real: npt.NDArray[np.float64],
    result: UniformType,
    bounds: tuple[int, int],
    contract: str,
    input_zero_point: int = 0,
) -> RequantizeOp:
    """An op that multiplies integers by real factors and stores them under `result`.

    Args:
        source: i32 accumulators, or stored integers of another scale.
        real: One factor, or one for each element of the last axis.
        result: The result's quantized type, per tensor.
        bounds: Stored integers to clamp to.
        contract: The rounding contract.
        input_zero_point: Subtracted first.
    """
    try:
        pairs = [numerics.quantize_multiplier(float(m)) for m in np.atleast_1d(real)]
    except numerics.NumericsError as error:
        raise NoIntegerForm("accumulator", f"its scales differ too much for a 32-bit multiplier: {error}") from None
    return RequantizeOp.make(
        [source],
        {
            "input_zero_point": int32(input_zero_point),
            "multiplier": int32s([m for m, _ in pairs]),
            "shift": int32s([s for _, s in pairs]),
            "contract": StringAttr(contract),
            "zero_point": int32(result.zero_point),
            "min": int32(bounds[0]),
            "max": int32(bounds[1]),
        },
        element=result.storage_type,
    )


def widest(element: UniformType) -> int:
    """The largest magnitude of a stored integer minus its zero point."""
    return max(abs(element.storage_min - element.zero_point), abs(element.storage_max - element.zero_point))


def prove_accumulator(largest: int | np.integer[npt.NBitBase], what: str) -> None:
    """Refuses a sum whose magnitude could pass 2^31 − 1."""
    if int(largest) > ACCUMULATOR_MAX:
        raise NoIntegerForm(
            "accumulator", f"{what} can reach {int(largest)}, more than a 32-bit accumulator holds; keep it float"
        )
