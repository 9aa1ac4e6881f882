"""The arithmetic of quantization on numpy arrays: fixed point, rounding, schemas, calibration, elementary functions.

No IR comes in here, so that every function can be checked against outside vectors. It may import `errors` only.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
