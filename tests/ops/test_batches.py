"""Each operation keeps samples apart where it says so: on a longer axis it computes what it computes on each sample."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase

from qmlir.dialects import nn
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.samples import MixesSamples
from tests.ops.samples import SAMPLES, Operand, Sample

SAMPLES_OF_A_BATCH = 3

NEVER = {
    "nn.constant",  # has no operands
    "nn.non_zero",  # its result is a list of all elements
    "nn.non_max_suppression",  # its result counts the boxes of all samples
}
"""The operations that refuse every batch."""


def kept(sample: Sample) -> Iterator[tuple[tuple[int | None, ...], int]]:
    """The choices of axes for a sample's operands that its operation accepts, each with the axis of its result."""
    op = sample.build()
    choices = [[None, *range(len(operand.shape))] for operand in sample.operands]
    for axes in product(*choices):
        if any(axis is not None for axis in axes):
            try:
                yield axes, op.sample_axis(axes)
            except MixesSamples:
                continue


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_samples_are_kept_apart(sample: Sample) -> None:
    for axes, result in kept(sample):
        batch = [sample.arrays(seed) for seed in range(SAMPLES_OF_A_BATCH)]
        for i, axis in enumerate(axes):
            for arrays in batch if axis is None else ():
                arrays[i] = batch[0][i]
        joined = [
            a[0] if axis is None else np.concatenate(a, axis)
            for axis, a in zip(axes, zip(*batch, strict=True), strict=True)
        ]
        if sample.op is nn.ConcatOp:  # what is the same for all samples is repeated
            joined = [np.repeat(a, SAMPLES_OF_A_BATCH, result) if axes[i] is None else a for i, a in enumerate(joined)]
        each = [y for arrays in batch for y in sample.build().evaluate(*arrays)]
        (together,) = longer(sample, axes, result).evaluate(*joined)
        np.testing.assert_array_equal(together, np.concatenate(each, result), strict=True)


def longer(sample: Sample, axes: tuple[int | None, ...], result: int) -> TensorOp:
    """The operation on all samples at once."""
    operands = list[Operand]()
    for operand, axis in zip(sample.operands, axes, strict=True):
        shape = list(operand.shape)
        if axis is not None:
            shape[axis] *= SAMPLES_OF_A_BATCH
        elif sample.op is nn.ConcatOp and shape[result] == 1:
            shape[result] = SAMPLES_OF_A_BATCH
        operands.append(replace(operand, shape=tuple(shape)))
    properties = dict(sample.properties)
    if issubclass(sample.op, MovementOp) and sample.op.SIZES:
        given = properties[sample.op.SIZES]
        assert isinstance(given, DenseArrayBase)
        sizes = [*given.get_values()]
        sizes[result] *= SAMPLES_OF_A_BATCH
        properties[sample.op.SIZES] = ints(sizes)
    return replace(sample, operands=tuple(operands), properties=properties).build()


@pytest.mark.parametrize("name", sorted({sample.op.name for sample in SAMPLES}))
def test_each_operation_keeps_some_samples_apart_or_is_known_not_to(name: str) -> None:
    assert any(True for sample in SAMPLES if sample.op.name == name for _ in kept(sample)) != (name in NEVER)
