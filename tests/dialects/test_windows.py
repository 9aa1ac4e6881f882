"""The geometry of sliding windows against index arithmetic, one element at a time."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xdsl.dialects import test
from xdsl.dialects.builtin import TensorType, i16
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint import MaxPool2DOp
from qmlir.dialects.windows import WindowOp, ints

FILL = -99


def sliding(
    image: tuple[int, int], window: tuple[int, int], strides: list[int], padding: list[int], dilations: list[int]
) -> WindowOp:
    """An operation with a window on images [2, image, 3]; it needs not be valid."""
    x = test.TestOp(result_types=[TensorType(i16, [2, *image, 3])]).res[0]
    return MaxPool2DOp(
        operands=[x],
        result_types=[x.type],
        properties={
            "window": ints(window),
            "strides": ints(strides),
            "padding": ints(padding),
            "dilations": ints(dilations),
        },
    )


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3)).map(list)


@given(
    image=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=pairs,
    dilations=pairs,
    padding=st.lists(st.integers(0, 4), min_size=4, max_size=4),
)
def test_windows(
    image: tuple[int, int], window: tuple[int, int], strides: list[int], dilations: list[int], padding: list[int]
) -> None:
    op = sliding(image, window, strides, padding, dilations)
    x = np.arange(2 * image[0] * image[1] * 3, dtype=np.int16).reshape(2, *image, 3)
    top, bottom, left, right = padding
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
    room = (image[0] + top + bottom - spans[0], image[1] + left + right - spans[1])
    assume(min(room) >= 0)

    outputs = op.window_output(x.shape, window)
    assert outputs == (room[0] // strides[0] + 1, room[1] // strides[1] + 1)
    windows = op.windows(x, window, FILL)
    assert windows.shape == (2, *outputs, *window, 3)
    assert not windows.flags.writeable
    inside_rows, inside_columns = op.taps_inside(x.shape, window)
    for row, column in np.ndindex(*outputs):
        inside = 0
        for i, j in np.ndindex(*window):
            h = row * strides[0] + i * dilations[0] - top
            w = column * strides[1] + j * dilations[1] - left
            if 0 <= h < image[0] and 0 <= w < image[1]:
                inside += 1
                np.testing.assert_array_equal(windows[:, row, column, i, j], x[:, h, w])
            else:
                assert (windows[:, row, column, i, j] == FILL).all()
        assert inside == inside_rows[row] * inside_columns[column]
    for tap, (i, j) in zip(op.taps(x, window, FILL), np.ndindex(*window), strict=True):
        np.testing.assert_array_equal(tap, windows[:, :, :, i, j])
    np.testing.assert_array_equal(op.maximum(x, window, FILL), windows.max(axis=(3, 4)))


def test_no_padding_needs_no_copy() -> None:
    x = np.zeros((2, 4, 4, 3), np.int16)
    op = sliding((4, 4), (2, 2), [1, 1], [0, 0, 0, 0], [1, 1])
    assert np.shares_memory(op.windows(x, (2, 2), 0), x)
    assert not np.shares_memory(op.maximum(x, (1, 1), 0), x)


def test_a_window_that_does_not_fit() -> None:
    op = sliding((2, 5), (3, 3), [1, 1], [0, 0, 0, 0], [1, 1])
    with pytest.raises(VerifyException, match="window spans 3 but the padded input has only 2"):
        op.windows(np.zeros((1, 2, 5, 1)), (3, 3), 0)
