"""Measures how far the outputs of a quantized network are from the float network's, and what their bits allow.

`qmlir.quantize` and the command measure each network that they quantize on data, and write what they found on the
module, as the fact `qmlir.quality`. numpy evaluates both networks: it gives the same bits as machine code, and on few
samples it is done before a compiler is. The number of samples follows from the time that an evaluation takes by
estimate, never from a clock, so that the same arguments give the same file.

What its bits allow is the SQNR of an output that is exact but for the rounding of its own b bits over its range:

    allowed = 10 · log10(mean(y²) / (step² / 12)),    step = (max(y, 0) − min(y, 0)) / (2^b − 1)

where b is the less of the bits of the output and of the network's weights. A network rounds at other places too, so
that good networks lose a few dB. One that reaches less than half of these decibels is broken: `Quality.below`.
"""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Operation

from qmlir.analysis.output_measure import thinned
from qmlir.analysis.saturation import Ranges, Saturation, text_of
from qmlir.analysis.tensors import tapped
from qmlir.backends.cpu.products import adding_in_machine_code
from qmlir.backends.reference import Reference
from qmlir.compiler import loaded, main_function, reference
from qmlir.devices.model.properties import products
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.display import Shown, Table, counted
from qmlir.errors import QmlirError, QualityWarning
from qmlir.ir.callable_network import Calibration, CallableNetwork
from qmlir.ir.facts import QUALITY
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.signature import signature_of
from qmlir.ir.states import states_of
from qmlir.numerics.schemas import weight_bits
from qmlir.samples.files import Samples
from qmlir.settings.arguments import Network, samples_given
from qmlir.settings.quant_config import policy_attribute, settings_of
from qmlir.settings.recorded import recorded_config
from qmlir.transforms.quantize.adjust.side_by_side import on_one_thread
from qmlir.transforms.quantize.apply.fold_qdq import is_as_imported

SECONDS = 4.0
"""What measuring may take by estimate; one sample is measured if it alone takes longer."""

MACS_A_SECOND, ELEMENTS_A_SECOND, OPERATIONS_A_SECOND = 3e8, 2e7, 1e4
"""What numpy evaluates in a second, of the float and of the integer network together: products, results, operations."""

MOST = 128
"""The most samples that are measured."""

ENOUGH, PART, KEPT = 16, 8, 16
"""From so many samples on, one in `PART` is kept aside, `KEPT` at most: quantization does not see them."""

SEED = 20261129
"""The seed that draws the samples that are kept aside."""


@dataclass(frozen=True)
class OutputQuality:
    """How far one output is from the float network's.

    name       the output's name
    sqnr       SQNR in dB; infinite for equal outputs; None for integers, and where the float output is always 0
    agreement  of an output of classes, the share of samples with float's class; of an output of integers, the share of
               equal elements; None for other outputs
    allowed    the SQNR in dB that the bits allow; None without an SQNR
    """

    name: str
    sqnr: float | None
    agreement: float | None
    allowed: float | None

    @property
    def below(self) -> bool:
        """Whether the output reaches less than half of what its bits allow."""
        if self.sqnr is None or self.allowed is None:
            return self.agreement is not None and self.allowed is None and self.agreement < LEAST_EQUAL
        return self.sqnr < self.allowed / 2

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON; an infinite figure becomes None, as JSON has no infinity."""
        row = {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in asdict(self).items()}
        exact = self.agreement == 1.0 if self.sqnr is None else self.sqnr == math.inf
        return row | {"exact": exact, "below": self.below}


LEAST_EQUAL = 0.5
"""The share of equal elements below which an output of integers counts as broken."""


@dataclass(frozen=True, repr=False)
class Quality(Shown):
    """How far the outputs of a quantized network are from the float network's.

    samples   the number of samples that were compared
    held_out  whether quantization has not seen these samples
    outputs   the outputs in order
    exceeded  tensors that exceed on held out samples what their types hold, in program order; not recorded
    worst     the number of the sample whose outputs err most; 0 of a network with states, whose samples are in order
    """

    samples: int
    held_out: bool
    outputs: tuple[OutputQuality, ...]
    exceeded: tuple[Saturation, ...] = ()
    worst: int = field(default=0, compare=False)

    @property
    def sqnr(self) -> float | None:
        """The least SQNR of an output in dB; None if no output has one."""
        return min((o.sqnr for o in self.outputs if o.sqnr is not None), default=None)

    @property
    def agreement(self) -> float | None:
        """The least agreement of an output of classes or integers; None if there is none."""
        return min((o.agreement for o in self.outputs if o.agreement is not None), default=None)

    @property
    def below(self) -> tuple[OutputQuality, ...]:
        """The outputs that reach less than half of what their bits allow."""
        return tuple(output for output in self.outputs if output.below)

    @property
    def origin(self) -> str:
        """Where the samples come from, in words."""
        return f"{counted(self.samples, 'sample')} {'held out' if self.held_out else 'that quantization used, too'}"

    def table(self) -> Table:
        rows = [(o.name, o.sqnr, None if o.agreement is None else 100 * o.agreement, o.allowed) for o in self.outputs]
        return Table(f"on {self.origin}", ("output", "SQNR [dB]", "agreement [%]", "its bits allow [dB]"), rows)

    def as_dict(self) -> dict[str, Any]:
        """Returns the figures as plain data for JSON."""
        rows = {"outputs": self.outputs, "exceeded": self.exceeded}
        told = {name: [row.as_dict() for row in each] for name, each in rows.items()}
        return {"samples": self.samples, "held_out": self.held_out, **told}


def quality(quantized: Network, module: Network | None = None, data: Calibration | None = None) -> Quality:
    """Returns how far the outputs of a quantized network are from the float network's.

    Args:
        quantized: The quantized network, or its path.
        module: The float network, or its path; by default, what `quantize` has measured is returned.
        data: Samples to measure on, all of them; a network with states takes them in order.

    Raises:
        QmlirError: `quantize` has measured nothing, as it had no data or was told not to; or only one of `module` and
            `data` is given, or there is no sample.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples)
    >>> qmlir.quality(q).outputs[0].sqnr > 30  # dB
    True
    >>> qmlir.quality(q, "digits.onnx", data=samples).outputs[0].below
    False
    """
    network = loaded(quantized, simplified=False)
    if module is None and data is None:
        if (found := recorded_quality(network)) is None:
            remedy = "give the float network and data"
            raise QmlirError("the quality of the network must have been measured", got="nothing", remedy=remedy)
        return found
    if module is None or data is None:
        got = "data alone" if module is None else "the float network alone"
        raise QmlirError("quality is measured of a float network on data", got=got, remedy="give both")
    found = measured(loaded(module), network, samples_given(data), held_out=True)
    if found.exceeded:
        warnings.warn(text_of(found.exceeded, found.origin), QualityWarning, stacklevel=2)
    return found


# ---------------------------------------------------------------------------------------------------------------
# Which samples are measured


def seconds_of(module: ModuleOp) -> float:
    """Returns about how long numpy evaluates a float network and the one quantized from it on a sample."""
    operations = [op for op in main_function(module).body.block.ops if op.results]
    elements = sum(math.prod(shape_of(result)) for op in operations for result in op.results)
    macs = sum(map(products, operations))
    return macs / MACS_A_SECOND + elements / ELEMENTS_A_SECOND + len(operations) / OPERATIONS_A_SECOND


def affordable_samples(module: ModuleOp) -> int:
    """Returns how many samples of a network can be measured in `SECONDS`, by estimate: at least 1, at most `MOST`."""
    return max(1, min(MOST, int(SECONDS / max(seconds_of(module), 1e-6))))


def kept_aside(module: ModuleOp, count: int) -> list[int]:
    """Returns the numbers of the samples that are kept aside, of `count` samples to quantize a network on.

    They are drawn with a fixed seed, one in `PART`, but no more than are measured; none of fewer than `ENOUGH` samples.
    Of a network with states, a sample is a whole sequence.
    """
    if count < ENOUGH:
        return []
    most = min(count // PART, KEPT, affordable_samples(module))
    return sorted(np.random.default_rng(SEED).permutation(count)[:most].tolist())


def chosen_samples(module: ModuleOp, data: Calibration, *, held_out: bool) -> list[Any]:
    """Returns the samples on which a network is measured: as many as the time allows, evenly spread.

    Of samples that quantization used, one in `PART` is enough, but at least `LEAST`. The samples of a network with
    states follow one another: the first calls are taken, of whole sequences as long as the time allows.
    """
    most = affordable_samples(module)
    if states_of(main_function(module)):
        return _first_calls(data, max(most, LEAST))
    if not isinstance(data, Sized):
        return list(islice(iter(data), most))
    count = len(data)
    kept = thinned(count, most if held_out else min(most, max(LEAST, count // PART))) if count else []
    return list(picked(data, kept))


def _first_calls(data: Calibration, most: int) -> list[Any]:
    """Returns sequences, or samples of one sequence, with so many calls; the last sequence may end early."""
    found: list[Any] = []
    for sample in data:
        if most <= 0:
            break
        is_sequence = isinstance(sample, list | tuple)
        found.append(sample[:most] if is_sequence else sample)
        most -= len(found[-1]) if is_sequence else 1
    return found


def picked(data: Calibration, numbers: Sequence[int]) -> Calibration:
    """Returns some of the samples, by their places in rising order; those of files are read when they are used."""
    if isinstance(data, Samples):
        return data.of([data.chosen[number] for number in numbers])
    if isinstance(data, Sequence | np.ndarray):
        held = cast("Sequence[Any]", data)
        return [held[number] for number in numbers]
    wanted = {*numbers}
    return [sample for number, sample in enumerate(data) if number in wanted]


LEAST = 8
"""So many samples are measured, if there are as many and the time allows it, of those that quantization used."""

# ---------------------------------------------------------------------------------------------------------------
# Measuring


@adding_in_machine_code
@on_one_thread
def measured(module: ModuleOp, quantized: ModuleOp, samples: Iterable[Any], *, held_out: bool) -> Quality:
    """Measures a quantized network on samples.

    Args:
        module: The float network; it stays unchanged.
        quantized: The network quantized from it, with floats as inputs and outputs; it stays unchanged.
        samples: Samples, all of which are used.
        held_out: Whether quantization has not seen them.

    Raises:
        QmlirError: A network cannot be evaluated, or there is no sample.
    """
    ranges = Ranges(quantized) if held_out and not _has_quantized_types(module) else None
    tapped_module, names = (module, []) if ranges is None else tapped(module, main_function(module))
    taken, truth = list(samples), list[Sequence[Array]]()
    with np.errstate(all="ignore"):
        for results in results_of(exact_reference(tapped_module), taken):
            truth.append(results[: len(results) - len(names)])
            if ranges is not None:
                ranges.add(dict(zip(names, results[len(truth[-1]) :], strict=True)))
        found = compared(quantized, truth, results_of(reference(quantized), taken), held_out=held_out)
    return found if ranges is None else replace(found, exceeded=tuple(ranges.exceeded()))


def compared(
    quantized: ModuleOp, truth: Sequence[Sequence[Array]], found: Iterable[Sequence[Array]], *, held_out: bool
) -> Quality:
    """Returns the quality of a quantized network by the outputs of the float network and by its own.

    Args:
        quantized: The quantized network.
        truth: The outputs of the float network for each sample.
        found: Those of the quantized network.
        held_out: Whether quantization has not seen these samples.

    Raises:
        QmlirError: There is no sample.
    """
    if not truth:
        raise QmlirError("quality is measured on at least one sample", got="none")
    signature = signature_of(main_function(quantized))
    sums = [Sums(spec.name, spec.shape) for spec in signature.outputs]
    with np.errstate(all="ignore"):
        for ours, theirs in zip(truth, found, strict=True):
            for each, exact, other in zip(sums, ours, theirs, strict=True):
                each.add(exact, other)
    bits = _bits_of_outputs(quantized)
    outputs = tuple(each.quality(b) for each, b in zip(sums, bits, strict=True))
    shares = [np.array(each.noises) / each.signal for each in sums if each.signal]
    worst = int(np.max(shares, axis=0).argmax()) if shares and not signature.states else 0
    return Quality(len(truth), held_out, outputs, worst=worst)


def exact_reference(module: ModuleOp) -> Reference:
    """Returns what evaluates a network before it is quantized; a model file, or a part of it, may hold integers."""
    return reference(module) if _has_quantized_types(module) else Reference(main_function(module))


def _has_quantized_types(module: ModuleOp) -> bool:
    """Whether a network has quantized types, or casts as a model file has them."""
    values = (value for op in module.walk() for value in op.results)
    return is_as_imported(module) or any(quantized_element(value.type) is not None for value in values)


def results_of(network: CallableNetwork, samples: Sequence[Any]) -> Iterator[list[Array]]:
    """Yields the outputs of a network for each sample; those of a network with states follow one another."""
    for given in network.taken(samples):
        yield network.advance(given)


@dataclass
class Sums:
    """What the quality of one output follows from."""

    name: str
    shape: tuple[int, ...]
    signal: float = 0.0
    noise: float = 0.0
    elements: int = 0
    low: float = 0.0
    high: float = 0.0
    equal: float = 0.0
    samples: int = 0
    is_float: bool = field(default=True)
    noises: list[float] = field(default_factory=list[float])

    @property
    def has_classes(self) -> bool:
        """Whether the output has one number for each class: one axis alone is longer than 1."""
        return sum(n > 1 for n in self.shape) == 1

    def add(self, truth: Array, found: Array) -> None:
        """Adds the output of both networks for a sample; elements that float itself has no number for are left out."""
        self.samples += 1
        self.noises.append(0.0)
        self.is_float = np.issubdtype(truth.dtype, np.floating)
        if truth.shape != found.shape:
            self.noise = self.noises[-1] = math.inf
            return
        if not self.is_float:
            self.equal += float((truth == found).mean()) if truth.size else 1.0
            return
        if self.has_classes and truth.size:
            self.equal += float(truth.argmax() == found.argmax())
        numbers = np.isfinite(truth)
        f, q = truth[numbers].astype(np.float64), found[numbers].astype(np.float64)
        self.signal += float(f @ f)
        noise = float((q - f) @ (q - f))
        self.noises[-1] = math.inf if math.isnan(noise) else noise
        self.noise += self.noises[-1]
        self.elements += f.size
        self.low, self.high = min(self.low, f.min(initial=0.0)), max(self.high, f.max(initial=0.0))

    def quality(self, bits: int) -> OutputQuality:
        """Returns the quality over all samples, of an output of so many bits."""
        agreement = self.equal / self.samples if self.has_classes or not self.is_float else None
        if not self.is_float or not self.signal or not self.elements:
            return OutputQuality(self.name, None, agreement, None)
        rounding = ((self.high - self.low) / (2**bits - 1)) ** 2 / 12
        allowed = 10 * math.log10(self.signal / self.elements / rounding) if rounding else math.inf
        sqnr = math.inf if not self.noise else 10 * math.log10(self.signal) - 10 * _log10(self.noise)
        return OutputQuality(self.name, round(sqnr, 2), agreement, round(allowed, 2))


def _log10(number: float) -> float:
    return math.inf if math.isinf(number) else math.log10(number)


def _bits_of_outputs(quantized: ModuleOp) -> list[int]:
    """The bits of each output: those that it is stored in, or those of the network's data, and at most its weights'."""
    config = recorded_config(quantized)
    network = {"float16": 11, "bfloat16": 8, "int16": 16}.get(config.precision, 8)
    weights = network if config.half is not None else weight_bits(config.stored_weights)
    function = main_function(quantized)
    kept = {state.index for state in states_of(function).values()}
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    found: list[int] = []
    for place, value in enumerate(end.operands):
        if place in kept:
            continue
        while isinstance(value.owner, Operation) and isinstance(value.owner, DequantizeCastOp):
            value = value.owner.operands[0]
        type = quantized_element(value.type)
        found.append(min(type.storage_width if isinstance(type, UniformType) else network, weights))
    return found


# ---------------------------------------------------------------------------------------------------------------
# The fact on a module


def record_quality(module: ModuleOp, found: Quality) -> None:
    """Writes what was measured on a module."""
    outputs = tuple(
        tuple("" if value is None else value for value in asdict(output).values()) for output in found.outputs
    )
    QUALITY.put(module, policy_attribute({"samples": found.samples, "held_out": found.held_out, "outputs": outputs}))


def recorded_quality(module: ModuleOp) -> Quality | None:
    """Returns what `quantize` has measured, as a module records it; None if it was not measured."""
    attribute = QUALITY.of(module)
    if not isinstance(attribute, DictionaryAttr):
        return None
    held = settings_of(attribute)
    try:
        rows = [[None if value == "" else value for value in row] for row in held["outputs"]]
        outputs = tuple(OutputQuality(str(name), *figures) for name, *figures in rows)
        return Quality(int(held["samples"]), bool(held["held_out"]), outputs)
    except (KeyError, TypeError, ValueError):  # the text was changed by hand
        return None


REPAIR = "--precision auto repairs what it can"
"""What may help an output that is below what its bits allow."""


def warn_of_quality(found: Quality, repair: str = REPAIR) -> None:
    """Warns of each output that reaches less than half of what its bits allow, and of tensors that saturate.

    Args:
        found: What was measured.
        repair: What may help such an output, or why nothing did.
    """
    if found.exceeded:
        warnings.warn(text_of(found.exceeded, found.origin), QualityWarning, stacklevel=3)
    for output in found.below:
        warnings.warn(text_below(found, output, repair), QualityWarning, stacklevel=3)


def text_below(found: Quality, output: OutputQuality, repair: str) -> str:
    """Returns the warning about an output that is below what its bits allow; `repair` is its end."""
    if output.sqnr is None or output.allowed is None:
        reached = f"agrees with float on {100 * (output.agreement or 0):.1f} % of its elements"
    else:
        sqnr = "has no number where float has one" if output.sqnr == -math.inf else f"reaches {output.sqnr:.1f} dB"
        reached = f"{sqnr}, less than half of the {output.allowed:.1f} dB that its bits allow"
    return f'output "{output.name}" {reached}, on {found.origin}; {repair}'
