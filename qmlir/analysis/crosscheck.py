"""Compares two forms of a network tensor by tensor, and finds the first that is further off than its bits allow.

A form is a file, and where it runs:

    net.onnx, net.tflite    in its own runtime, onnxruntime or LiteRT (other_runtimes.py)
    net.mlir                as machine code of this processor
    FILE@WHERE              as qmlir reads the file: on the `cpu`, in the `reference` (numpy), or on a device

Tensors are compared as the numbers that they stand for, by their names. Runtimes keep channels first where qmlir has
them last, so that a tensor may be the other's with its axes moved. `compare` (differences.py) is for runs that must
agree in all bits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.differences import Run, executor_given
from qmlir.analysis.other_runtimes import RUNTIMES, tensors_in_runtime
from qmlir.analysis.quality import OutputQuality, Sums
from qmlir.analysis.tensors import as_read
from qmlir.compiler import load, loaded, main_function
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.errors import QmlirError
from qmlir.ir.interfaces import Array, TensorOp
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import signature_of
from qmlir.policies.ledger import decided_operations
from qmlir.settings.arguments import samples_given

FLOAT_BITS = 24
"""The bits that float32 rounds to."""

Sample = Array | Mapping[str, Array]

Form = ModuleOp | str | Path
"""A form of a network: a module, or a file and perhaps where it runs."""


@dataclass(frozen=True)
class CheckedTensor:
    """How far a tensor of the second form is from that of the first form.

    tensor     the tensor's name
    operation  what makes it, in the second form or else in the first; empty if neither says
    sqnr       SQNR in dB; infinite for equal tensors; None where the first form has zeros only
    largest    the largest distance of two elements
    bits       the fewest bits in which one of the forms stores the tensor
    allowed    the SQNR in dB that these bits allow; None without an SQNR
    scaled     whether the channels of one form are those of the other times a factor each, as equalization makes them;
               the figures are those without the factors
    diverges   whether the SQNR is less than half of what the bits allow
    why        what the ledger says of the operation; empty without a ledger
    """

    tensor: str
    operation: str
    sqnr: float | None
    largest: float
    bits: int
    allowed: float | None
    scaled: bool
    diverges: bool
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON; a figure that is no finite number becomes None."""
        return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in asdict(self).items()}


@dataclass(frozen=True)
class Crosscheck:
    """The comparison of two forms.

    rows      the tensors that both forms have, in the order in which the network computes them
    left_out  tensors of the first form that the second has not, or in another shape
    samples   the number of samples
    """

    rows: tuple[CheckedTensor, ...]
    left_out: tuple[str, ...]
    samples: int

    @property
    def first(self) -> CheckedTensor | None:
        """The first tensor that diverges; the operation that makes it is where the two forms part."""
        return next((row for row in self.rows if row.diverges), None)


def crosscheck(
    first: Form, second: Form, samples: Iterable[Sample], *, bind: Mapping[str, int] | None = None
) -> Crosscheck:
    """Compares two forms of a network tensor by tensor.

    Args:
        first: A module, or a file: `FILE` runs in its own runtime, `FILE@WHERE` as qmlir reads it, on the `cpu`, in the
            `reference` or on a device.
        second: Another form of the network.
        samples: Arrays for the only input, or dicts of arrays by input name.
        bind: Values for the symbolic dimensions of .onnx files; an unbound first dimension is 1.

    Raises:
        OptionError: There is no such device.
        UnsupportedError: A runtime is not installed.
        QmlirError: The forms have no tensor in common, there is no sample, or a network has states.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples)
    >>> qmlir.crosscheck("digits.onnx@cpu", q, samples).first is None
    True
    """
    given = list(samples_given(samples))
    if not given:
        raise QmlirError("a crosscheck needs at least one sample", got="none")
    return _checked(_form(first, given, bind), _form(second, given, bind), len(given))


@dataclass(frozen=True)
class _Form:
    """The tensors of a form for each sample, and what is known of them."""

    samples: Sequence[Mapping[str, Array]]
    bits: Mapping[str, int]
    makers: Mapping[str, str]
    whys: Mapping[str, str]
    outputs: Sequence[str]


def parted(given: "str | Path") -> tuple[Path, str]:
    """Returns the file of a form, and where it runs; empty for its own runtime."""
    name, at, where = str(given).rpartition("@")
    return (Path(name), where) if at and not Path(str(given)).exists() else (Path(str(given)), "")


def _form(given: Form, samples: Sequence[Sample], bind: Mapping[str, int] | None) -> _Form:
    path, where = (None, "cpu") if isinstance(given, ModuleOp) else parted(given)
    network = loaded(given if path is None else load(path, bind=bind) if path.suffix == ".onnx" else path)
    signature = signature_of(main_function(network))
    outputs = [spec.name for spec in signature.outputs]
    if signature.states:
        where = str(path or "the network")
        raise QmlirError("a crosscheck compares single calls", where=where, got="a network with states")
    if path is not None and not where and path.suffix in RUNTIMES:
        names = [spec.name for spec in signature.inputs]
        found = tensors_in_runtime(path, names, [signature.arrays(sample) for sample in samples])
        return _Form(found.samples, found.bits, found.makers, {}, outputs)
    run = Run(network, executor_given("form", where or "cpu"), str(path or "the network"), stored=False)
    tensors = [run.tensors(sample) for sample in samples]
    return _Form(tensors, _bits_of(network), run.operations, _whys_of(network), outputs)


def _bits_of(module: ModuleOp) -> dict[str, int]:
    """The bits of the quantized tensors of a network, inputs as integer operations read them."""
    block = main_function(module).body.block
    results = [result for op in block.ops if isinstance(op, TensorOp) for result in op.results]
    types = {tensor_name(value): quantized_element(as_read(value).type) for value in (*block.args, *results)}
    return {name: type.storage_width for name, type in types.items() if isinstance(type, UniformType) and name}


def _whys_of(module: ModuleOp) -> dict[str, str]:
    return {tensor_name(r): entry.reason for op, entry in decided_operations(module) for r in op.results}


def _checked(first: _Form, second: _Form, count: int) -> Crosscheck:
    shared: dict[str, tuple[int, ...]] = {}
    for name, array in second.samples[0].items():
        if name in first.samples[0] and (axes := _moved(first.samples[0][name], array)) is not None:
            shared[name] = axes
    if not shared:
        raise QmlirError("the two forms must have tensors of the same names and shapes", got="none in common")
    ends = {*first.outputs, *second.outputs}
    rows = [_row(name, axes, first, second, is_output=name in ends) for name, axes in shared.items()]
    left_out = [name for name in first.samples[0] if name not in shared]
    return Crosscheck(tuple(rows), tuple(left_out), count)


def _row(name: str, axes: tuple[int, ...], first: _Form, second: _Form, *, is_output: bool) -> CheckedTensor:
    """Compares a tensor over all samples; an output of the network is never compared but for factors of channels."""
    found = [sample[name].astype(np.float64) for sample in second.samples]
    shape = found[0].shape
    exact = [s[name].transpose(axes) if axes else s[name].reshape(shape) for s in first.samples]
    exact = [each.astype(np.float64) for each in exact]
    bits = min(form.bits.get(name, FLOAT_BITS) for form in (first, second))
    whole, largest = _compared(name, exact, found, bits)
    scaled = False
    if whole.below and not is_output and len(shape) > 1 and (factors := _factors(exact, found)) is not None:
        without, rest = _compared(name, exact, [each / factors for each in found], bits)
        if not without.below:
            whole, largest, scaled = without, rest, True
    maker = second.makers.get(name) or first.makers.get(name, "")
    why = second.whys.get(name) or first.whys.get(name, "")
    return CheckedTensor(name, maker, whole.sqnr, largest, bits, whole.allowed, scaled, whole.below, why)


def _compared(name: str, exact: Sequence[Array], found: Sequence[Array], bits: int) -> tuple[OutputQuality, float]:
    """Returns the quality of a tensor and the largest distance of two elements."""
    sums, largest = Sums(name, exact[0].shape), 0.0
    with np.errstate(all="ignore"):
        for truth, other in zip(exact, found, strict=True):
            sums.add(truth, other)
            largest = max(largest, float(np.abs(truth - other).max(initial=0.0)))
    return sums.quality(bits), largest


def _factors(exact: Sequence[Array], found: Sequence[Array]) -> Array | None:
    """The positive factor of each channel, along the last axis, that fits best; None if a channel has none."""
    f, q = (np.concatenate([each.reshape(-1, each.shape[-1]) for each in some]) for some in (exact, found))
    with np.errstate(all="ignore"):
        factors = (f * q).sum(axis=0) / (f * f).sum(axis=0)
    factors[(f == 0).all(axis=0)] = 1.0
    return factors if np.isfinite(factors).all() and (factors > 0).all() else None


def _moved(ours: Array, theirs: Array) -> tuple[int, ...] | None:
    """Returns the order of axes in which our tensor has their shape: the one that is closer; () for a reshape.

    None for tensors of other shapes, and where one of them is no number.
    """
    if ours.dtype.kind not in "fiub" or theirs.dtype.kind not in "fiub" or ours.size != theirs.size:
        return None
    axes = tuple(range(ours.ndim))
    orders = [axes, (axes[0], *axes[2:], axes[1]), (axes[0], axes[-1], *axes[1:-1])] if ours.ndim > 2 else [axes]
    fitting = [order for order in orders if ours.transpose(order).shape == theirs.shape]
    if not fitting:
        same = [n for n in ours.shape if n > 1] == [n for n in theirs.shape if n > 1]
        return () if same else None
    with np.errstate(all="ignore"):
        return min(fitting, key=lambda o: float(np.nansum(np.abs(ours.transpose(o).astype(float) - theirs))))
