"""Steps of tables in float32."""

import numpy as np
import pytest

from qmlir.lowering.nn_to_qint.functions import half_away

LESS = np.nextafter(np.float32(0.5), np.float32(0))


@pytest.mark.parametrize(
    ("x", "rounded"), [(LESS, 0), (0.5, 1), (-0.5, -1), (-LESS, 0), (2.5, 3), (-1.25, -1), (2**23 + 1, 2**23 + 1)]
)
def test_halves_go_away_from_zero(x: float, rounded: int) -> None:
    """Also where x + 1/2 is no float32."""
    assert half_away(np.array(x, np.float32)) == rounded
