"""Compares two forms of a network tensor by tensor, and finds the first that is further off than its bits allow.

A form is a file, and where it runs:

    net.onnx, net.tflite    in its own runtime, onnxruntime or LiteRT (other_runtimes.py)
    net.mlir                as machine code of this processor
    FILE@WHERE              as qmlir reads the file: on the `cpu`, in the `reference` (numpy), or on a device

A network with states runs on sequences, in each form with the states of its own: an error that a step leaves in a state
is in all steps behind it. The first tensor is that of the first step, then.

Tensors are compared as the numbers that they stand for, by their names. Runtimes keep channels first where qmlir has
them last, so that a tensor may be the other's with its axes moved. `compare` (differences.py) is for runs that must
agree in all bits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qmlir.analysis.differences import Run, executor_given
from qmlir.analysis.other_runtimes import RUNTIMES, tensors_in_runtime
from qmlir.analysis.quality import OutputQuality, Sums
from qmlir.analysis.saturation import Ranges
from qmlir.analysis.tensors import as_read
from qmlir.compiler import load, loaded, main_function
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.errors import QmlirError
from qmlir.ir.callable_network import Calibration, Sample, in_order
from qmlir.ir.interfaces import Array, TensorOp
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import signature_of
from qmlir.ir.states import states_of
from qmlir.policies.ledger import decided_operations
from qmlir.settings.arguments import samples_given

FLOAT_BITS = 24
"""The bits that float32 rounds to."""

Form = ModuleOp | str | Path
"""A form of a network: a module, or a file and perhaps where it runs."""


@dataclass(frozen=True)
class CheckedTensor:
    """How far a tensor of the second form is from that of the first form.

    tensor     the tensor's name
    operation  what makes it, in the second form or else in the first; empty if neither says
    sqnr       SQNR in dB; infinite for equal tensors; None where the first form has zeros only
    largest    the largest distance of two elements
    bits       the fewest bits in which one of the forms stores the tensor, or what it computes the tensor from
    allowed    the SQNR in dB that these bits allow; None without an SQNR
    scaled     whether the channels of one form are those of the other times a factor each, as equalization makes them;
               the figures are those without the factors
    diverges   whether the SQNR is less than half of what the bits allow
    sample     the first sample, counted from 0, that is as far off by itself; None if the tensor does not diverge
    why        what the ledger says of the operation, and whether the tensor saturates; empty without either
    """

    tensor: str
    operation: str
    sqnr: float | None
    largest: float
    bits: int
    allowed: float | None
    scaled: bool
    diverges: bool
    sample: int | None
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
    starts    the samples before which the states of the network are reset; empty without states
    """

    rows: tuple[CheckedTensor, ...]
    left_out: tuple[str, ...]
    samples: int
    starts: tuple[int, ...] = ()

    @property
    def first(self) -> CheckedTensor | None:
        """The first tensor that diverges, in the first step; the operation that makes it is where the forms part."""
        rows = [row for row in self.rows if row.diverges]
        return min(rows, key=lambda row: row.sample or 0 if self.starts else 0, default=None)


def crosscheck(
    first: Form, second: Form, samples: Calibration, *, bind: Mapping[str, int] | None = None,
    state: Mapping[str, str] | None = None,
) -> Crosscheck:  # fmt: skip
    """Compares two forms of a network tensor by tensor.

    Args:
        first: A module, or a file: `FILE` runs in its own runtime, `FILE@WHERE` as qmlir reads it, on the `cpu`, in the
            `reference` or on a device.
        second: Another form of the network.
        samples: Arrays for the only input, or dicts of arrays by input name. To a network with states they are one
            sequence, and a list of them is a sequence of its own.
        bind: Values for the symbolic dimensions of .onnx files; an unbound first dimension is 1.
        state: Inputs of files that live from call to call, each with the output that is its next value; files that name
            their states, and modules, need none.

    Raises:
        OptionError: There is no such device.
        UnsupportedError: A runtime is not installed.
        QmlirError: The forms have no tensor in common, there is no sample, or only one of them has states.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples)
    >>> qmlir.crosscheck("digits.onnx@cpu", q, samples).first is None
    True
    """
    given = list(samples_given(samples))
    if not given:
        raise QmlirError("a crosscheck needs at least one sample", got="none")
    forms = [_network(form, bind, state) for form in (first, second)]
    counts = [len(states_of(main_function(network))) for _, _, network in forms]
    if min(counts) < max(counts):
        remedy = "name the states of both by --state"
        raise QmlirError("both forms must have the same states", got=" and ".join(map(str, counts)), remedy=remedy)
    flat, starts = in_order(given) if max(counts) else (cast(list[Sample], given), [])
    ours, theirs = (_form(*form, flat, starts) for form in forms)
    return _checked(ours, theirs, len(flat), tuple(starts))


@dataclass(frozen=True)
class _Form:
    """The tensors of a form for each sample, and what is known of them."""

    samples: Sequence[Mapping[str, Array]]
    bits: Mapping[str, int]
    makers: Mapping[str, str]
    whys: Mapping[str, str]
    outputs: Sequence[str]
    network: ModuleOp


def parted(given: "str | Path") -> tuple[Path, str]:
    """Returns the file of a form, and where it runs; empty for its own runtime."""
    name, at, where = str(given).rpartition("@")
    return (Path(name), where) if at and not Path(str(given)).exists() else (Path(str(given)), "")


def _network(
    given: Form, bind: Mapping[str, int] | None, state: Mapping[str, str] | None
) -> tuple[Path | None, str, ModuleOp]:
    """Returns the file of a form (None if it has none), the name of what runs it, and its network as qmlir reads it."""
    path, where = (None, "cpu") if isinstance(given, ModuleOp) else parted(given)
    if path is None or path.suffix not in RUNTIMES:
        return path, where, loaded(given if path is None else path)
    return path, where, load(path, bind=bind if path.suffix == ".onnx" else None, state=state)


def _form(path: Path | None, where: str, network: ModuleOp, samples: Sequence[Sample], starts: Sequence[int]) -> _Form:
    signature = signature_of(main_function(network))
    outputs = [spec.name for spec in signature.outputs]
    if path is not None and not where and path.suffix in RUNTIMES:
        names = [spec.name for spec in signature.inputs]
        arrays = [signature.arrays(sample) for sample in samples]
        found = tensors_in_runtime(path, names, arrays, signature.states, starts or (0,))
        return _Form(found.samples, {**found.bits, **_bits_of(network)}, found.makers, {}, outputs, network)
    run = Run(network, executor_given("form", where or "cpu"), str(path or "the network"), stored=False)
    tensors: list[Mapping[str, Array]] = []
    for number, sample in enumerate(samples):
        if number in starts:
            run.reset()
        tensors.append(run.tensors(sample))
    return _Form(tensors, _bits_of(network), run.operations, _whys_of(network), outputs, network)


def _bits_of(module: ModuleOp) -> dict[str, int]:
    """The fewest bits of a tensor of a network and of what it is computed from, inputs as integer operations read them.

    A logarithm on floats of a result in i8 is no closer than 8 bits allow.
    """
    block = main_function(module).body.block
    bits: dict[SSAValue, int] = {}
    for operands, results in [((), block.args), *((op.operands, op.results) for op in block.ops)]:
        held = [bits[value] for value in operands if value in bits]
        for value in results:
            own = quantized_element(value.type)
            if known := [*held, *([own.storage_width] if isinstance(own, UniformType) else [])]:
                bits[value] = min(known)
    results = [result for op in block.ops if isinstance(op, TensorOp) for result in op.results]
    named = {tensor_name(value): bits.get(as_read(value)) for value in (*block.args, *results)}
    return {name: count for name, count in named.items() if name and count is not None}


def _whys_of(module: ModuleOp) -> dict[str, str]:
    return {tensor_name(r): entry.reason for op, entry in decided_operations(module) for r in op.results}


def _saturated(first: _Form, second: _Form) -> dict[str, str]:
    """What the ledger says of the second form, and of tensors that exceed there what they hold."""
    ranges, whys = Ranges(second.network), dict(second.whys)
    for sample in first.samples:
        ranges.add(sample)
    for found in ranges.exceeded():
        ends = f"[{found.low:.4g}, {found.high:.4g}], from {found.least:.4g} to {found.most:.4g}"
        said = f"{100 * found.share:.1f} % of its values lie outside of {ends}"
        whys[found.tensor] = "; ".join(filter(None, (whys.get(found.tensor), said)))
    return whys


def _checked(first: _Form, second: _Form, count: int, starts: tuple[int, ...]) -> Crosscheck:
    second = replace(second, whys=_saturated(first, second))
    shared: dict[str, tuple[int, ...]] = {}
    for name, array in second.samples[0].items():
        if name in first.samples[0] and (axes := _moved(first.samples[0][name], array)) is not None:
            shared[name] = axes
    if not shared:
        raise QmlirError("the two forms must have tensors of the same names and shapes", got="none in common")
    ends = {*first.outputs, *second.outputs}
    rows = [_row(name, axes, first, second, is_output=name in ends) for name, axes in shared.items()]
    left_out = [name for name in first.samples[0] if name not in shared]
    return Crosscheck(tuple(rows), tuple(left_out), count, starts)


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
    at = _first_sample(exact, found, whole.allowed) if whole.below else None
    return CheckedTensor(name, maker, whole.sqnr, largest, bits, whole.allowed, scaled, whole.below, at, why)


def _first_sample(exact: Sequence[Array], found: Sequence[Array], allowed: float | None) -> int:
    """The first sample whose noise alone is more than the bits allow, over the signal of all samples in the mean."""
    with np.errstate(all="ignore"):
        signal = float(np.nanmean([np.square(truth).sum() for truth in exact]))
        most = signal * 10 ** (-(allowed or 0) / 20)
        noises = [float(np.square(truth - other).sum()) for truth, other in zip(exact, found, strict=True)]
    return next((place for place, noise in enumerate(noises) if not noise <= most), 0)


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
