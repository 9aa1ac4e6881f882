"""The algebra of permutations, against numpy."""

import numpy as np

from qmlir.transforms.nn.cancel_transposes import (
    composed,
    inverse,
    is_identity,
    moves_no_data,
    reshape_first,
    to_channels_last,
    transposed,
)


def test_inverse_and_composition() -> None:
    rng = np.random.default_rng(0)
    for rank in range(1, 6):
        p, q = (tuple(rng.permutation(rank).tolist()) for _ in range(2))
        a = rng.standard_normal(rng.integers(1, 4, rank))
        assert np.array_equal(a.transpose(p).transpose(q), a.transpose(composed(p, q)))
        assert is_identity(composed(p, inverse(p)))
        assert transposed(a.shape, p) == a.transpose(p).shape


def test_moves_no_data() -> None:
    assert moves_no_data((1, 1, 28, 28), (0, 2, 3, 1))
    assert not moves_no_data((1, 2, 28, 28), (0, 2, 3, 1))
    assert moves_no_data((1, 8, 1, 1), (0, 2, 3, 1))


def test_to_channels_last() -> None:
    assert to_channels_last((0, 2, 3, 1))
    assert to_channels_last((0, 2, 1))
    assert not to_channels_last((0, 3, 1, 2))
    assert not to_channels_last((0, 1))


def test_reshape_first_is_the_same_reshape() -> None:
    """Whatever it answers is right, and it answers often."""
    rng = np.random.default_rng(1)
    answered = 0
    for _ in range(2000):
        rank = int(rng.integers(1, 5))
        a = rng.standard_normal(rng.choice([1, 2, 3, 4], rank))
        p = tuple(rng.permutation(rank).tolist())
        target = list(a.transpose(p).shape)
        for _ in range(int(rng.integers(1, 4))):
            i = int(rng.integers(len(target))) if target else 0
            if rng.random() < 0.4 and i + 1 < len(target):
                target[i : i + 2] = [target[i] * target[i + 1]]
            elif rng.random() < 0.4 and target and target[i] % 2 == 0:
                target[i : i + 1] = [2, target[i] // 2]
            elif rng.random() < 0.3 and target and target[i] == 1:
                del target[i]
            else:
                target.insert(i, 1)
        found = reshape_first(a.shape, p, tuple(target))
        if found is not None:
            answered += 1
            shape, q = found
            assert np.array_equal(a.transpose(p).reshape(target), a.reshape(shape).transpose(q))
    assert answered > 1000


def test_reshape_first_examples() -> None:
    first = (0, 3, 1, 2)
    assert reshape_first((2, 4, 5, 3), first, (2, 3, 20)) == ((2, 20, 3), (0, 2, 1))
    assert reshape_first((2, 4, 5, 3), first, (2, 60)) is None
    assert reshape_first((1, 4, 5, 9), first, (1, 1, 3, 3, 4, 5)) == ((1, 4, 5, 1, 3, 3), (0, 3, 4, 5, 1, 2))
    assert reshape_first((2, 1, 1, 3), first, (2, 3)) == ((2, 3), (0, 1))
    assert reshape_first((0, 4), (1, 0), (4, 0)) is None
    assert reshape_first((1, 1), (1, 0), (1,)) is not None
