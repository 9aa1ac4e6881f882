"""Interpolation as machine code: dimensions between the axes are one."""

from qmlir.codegen.kernels.elementwise import merged_around


def test_dimensions_beside_the_axes_merge() -> None:
    assert merged_around((2, 3, 4, 5, 6), (2, 3, 8, 5, 6), [2]) == ((6, 4, 30), (6, 8, 30), [1])
    assert merged_around((2, 3, 4, 5), (2, 3, 8, 9), [3, 2]) == ((6, 4, 5), (6, 8, 9), [2, 1])
    assert merged_around((2, 3, 4), (1, 3, 8), [0, 2]) == ((2, 3, 4), (1, 3, 8), [0, 2])
