"""The arithmetic of quantization on numpy arrays: fixed point, rounding, schemas, calibration, elementary functions.

No IR comes in here, so that every function can be checked against outside vectors. It may import `errors` and `plugins`
only.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype in this machine's byte order: numpy's built-in dtype object if numpy has the type."""
    return np.dtype(dtype.type) if dtype.isbuiltin == 0 and dtype.kind in "biuf" else dtype
