"""Integer pools as machine code: ties; test_random_pools.py draws the rest."""

import numpy as np

from qmlir.dialects.qint import AveragePool2DOp
from qmlir.dialects.windows import ints
from tests.lowering.both import check


def test_halves_are_rounded_away_from_zero() -> None:
    x = np.array([[1, 2], [-1, -2], [3, 4], [-3, -4]], np.int8).reshape(4, 1, 2, 1)
    check(lambda x: AveragePool2DOp.make([x], {"window": ints([1, 2])}).y, x)
