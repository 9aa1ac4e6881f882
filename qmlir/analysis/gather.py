"""Gathers the facts of a report: reads them from the networks, and measures those that need samples or a processor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from qmlir.analysis.counts import figures_of
from qmlir.analysis.facts import (
    Accuracy,
    Counts,
    DeviceFacts,
    DeviceRun,
    ErrorFacts,
    Facts,
    HistogramFacts,
    LayerFacts,
    NetworkFacts,
    TensorFacts,
    TimingFacts,
)
from qmlir.analysis.memory_map import arena_map, memory_maps
from qmlir.analysis.roofline import roofline
from qmlir.analysis.scores import TOP, Scored, agreeing, check_count, classes_of, labels_given, require_classes, scored
from qmlir.analysis.tensors import TensorError, analyze
from qmlir.analysis.timing import measure, random_inputs
from qmlir.compiler import Pipeline, compile, main_function
from qmlir.compiler import profile as learn
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.errors import OptionError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.facts import FACTORS
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.rewriting import names_of, node_name, tensor_name
from qmlir.ir.signature import signature_of
from qmlir.numerics import Float64s, Int64s
from qmlir.numerics.histograms import Histogram
from qmlir.policies.ledger import DATA_FREE, REMEDIES, deciding_operations, decision_of, decisions
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import TensorProfile
from qmlir.stages import IMPORTED, SIMPLIFY
from qmlir.transforms.quantize.apply.fold_qdq import is_as_imported
from qmlir.transforms.quantize.ranges.apply_profile import is_float

if TYPE_CHECKING:
    from qmlir.backends.simulated import Simulated
    from qmlir.devices import Accelerator

BINS = 96
"""The most bins of a histogram in a report; a screen shows no more."""

COMPARED = 32
"""The most samples over which errors are computed: more take longer, and change the figures little."""

TIMED = 16
"""The most samples that calls are timed on."""

MOST_BUFFERS = 3000
"""The most buffers of a program whose tiles a report shows; of larger programs it shows whole tensors."""

Sample = Array | Mapping[str, Array]


@dataclass(frozen=True)
class Given:
    """What a report is made from, besides the networks.

    samples  inputs of the networks; empty if there are none
    labels   the right class of each sample; None if unknown
    profile  the distributions of the float network's tensors; None if unknown
    target   a device, its name, or the path of its file; None without
    seconds  how long to measure calls of each network; 0 to measure nothing
    """

    samples: Sequence[Sample] = ()
    labels: npt.ArrayLike | None = None
    profile: Profile | None = None
    target: "Accelerator | None" = None
    seconds: float = 1.0


def gather(networks: Mapping[str, ModuleOp], given: Given) -> Facts:
    """Returns the facts of one to three networks.

    Args:
        networks: At most one float network and at most two networks quantized from it, by the names that the report
            gives them; they stay unchanged.
        given: The samples, labels, profile and device.

    Raises:
        OptionError: There are other networks than these, or the labels do not fit the samples.
        QmlirError: A network has operations that qmlir does not know, the networks have no tensor in common, or there
            are labels and a network does not have one output of classes.
    """
    classes = None if given.labels is None else labels_given(given.labels)
    if classes is not None:
        check_count(classes, len(given.samples))
    for name, module in networks.items():
        refuse_opaque(module, name)
    _require_classes(networks, given.labels)
    floats, quantized = _sorted(networks)
    source = next(iter(floats.values()), None)
    prepared = {name: _prepared(module) for name, module in (*floats.items(), *quantized.items())}
    target = given.target
    programs = {} if target is None else {name: compile(prepared[name], target=target) for name in quantized}
    profile = given.profile
    if profile is None and source is not None and given.samples:
        profile = learn(source, given.samples)
    facts = {name: _described(name, module, profile) for name, module in prepared.items()}
    compared = min(len(given.samples), COMPARED) if source is not None and quantized else 0
    if compared:
        assert source is not None
        for name in quantized:
            rows = analyze(source, prepared[name], islice(given.samples, compared))
            facts[name] = _with_errors(facts[name], rows)
    if given.seconds:
        for name, module in prepared.items():
            facts[name] = _with_times(facts[name], module, given)
    for name, program in programs.items():
        facts[name] = _with_device(facts[name], program)
    if classes is not None:
        found = _accuracies(prepared, given.samples, classes, next(iter(floats), None))
        facts = {name: replace(each, accuracy=found[name]) for name, each in facts.items()}
    missing = _missing(bool(floats), bool(quantized), given, profile)
    estimated = [
        name for name, each in facts.items() if any(o.decision and o.decision.is_data_free for o in each.layers)
    ]
    if estimated:
        missing["ranges"] = f"Ranges of {_listed(estimated)} are estimated from {DATA_FREE}."
    return Facts(tuple(facts.values()), compared, 0 if profile is None else profile.samples, missing)


def _require_classes(networks: Mapping[str, ModuleOp], labels: Any) -> None:
    """Refuses labels that are no classes of the networks, before anything is measured."""
    if labels is None:
        return
    for module in networks.values():
        outputs = signature_of(main_function(module)).outputs
        require_classes(labels_given(labels), classes_of([spec.shape for spec in outputs]))


def _sorted(networks: Mapping[str, ModuleOp]) -> tuple[dict[str, ModuleOp], dict[str, ModuleOp]]:
    """Returns the float networks and the quantized networks.

    Raises:
        OptionError: There are more than one float network, more than two quantized networks, or none at all.
    """
    floats = {name: module for name, module in networks.items() if _is_float(module)}
    quantized = {name: module for name, module in networks.items() if name not in floats}
    if not networks or len(floats) > 1 or len(quantized) > 2:
        need = "must be at most one float network and at most two networks that were quantized from it"
        got = f"{len(floats)} float and {len(quantized)} quantized" if networks else "none"
        raise OptionError("networks", need, got=got, remedy="make a report for each pair")
    return floats, quantized


def _is_float(module: ModuleOp) -> bool:
    return is_float(module) and not is_as_imported(module)


def _prepared(module: ModuleOp) -> ModuleOp:
    """The network as its layers are counted: simplified, and on quantized types if its file was quantized."""
    if is_as_imported(module):
        return Pipeline(*IMPORTED)(module)
    return Pipeline(*SIMPLIFY)(module) if is_float(module) else module


def _missing(has_float: bool, has_quantized: bool, given: Given, profile: Profile | None) -> dict[str, str]:
    """What the report cannot show, and what to give for it."""
    wanted = {
        "a float model": not has_float,
        "a quantized network": not has_quantized,
        "samples (--data)": not given.samples,
    }
    absent = [what for what, lacks in wanted.items() if lacks]
    found: dict[str, str] = {}
    if absent:
        found["errors"] = f"The errors of layers need {_listed(absent)}, too."
    if profile is None:
        found["histograms"] = "Distributions of activations need a profile (--profile), or a float model and --data."
    if not given.seconds:
        found["times"] = "Times were not measured, as --seconds is 0."
    if given.target is None or not has_quantized:
        wants = "a device (--target)" if has_quantized else "a quantized network and a device (--target)"
        found["device"] = f"Cycles need {wants}."
    if given.labels is None:
        wants = "the labels of the samples (--labels)" if given.samples else "samples (--data) and labels (--labels)"
        found["accuracy"] = f"Accuracy needs {wants}."
    return found


def _listed(texts: Sequence[str]) -> str:
    return " and ".join((", ".join(texts[:-1]), texts[-1])) if len(texts) > 1 else texts[0]


# ---------------------------------------------------------------------------------------------------------------
# What the network itself says


def _described(name: str, module: ModuleOp, profile: Profile | None) -> NetworkFacts:
    """The facts that can be read from a network, and from the distributions of its tensors."""
    function = main_function(module)
    operations = [op for op in deciding_operations(module) if op.parent_op() is function]
    ledger = dict(zip((op for op in deciding_operations(module) if decision_of(op)), decisions(module), strict=True))
    index: dict[SSAValue, int] = {result: number for number, op in enumerate(operations) for result in op.results}
    layers = [
        LayerFacts(
            node_name(op),
            op.name,
            _all_names(op),
            {key: _text(value) for key, value in op.properties.items()},
            tuple(dict.fromkeys(_source(v, index) for v in op.operands if not _is_constant(v))),
            _tensor(op.results[0], profile),
            _weights(op),
            _counts(op),
            ledger.get(op),
        )
        for op in operations
    ]
    inputs = tuple(_tensor(_as_read(argument), profile, argument) for argument in function.body.block.args)
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    outputs = tuple(dict.fromkeys(_source(v, index) for v in end.operands if not _is_constant(v)))
    return NetworkFacts(name, not is_float(module), inputs, outputs, tuple(layers))


def _counts(op: Operation) -> Counts:
    figures = figures_of(op)
    written = sum(tensor.bytes for tensor in figures.results)
    return Counts(figures.macs, figures.weight_bytes, figures.activation_bytes - written, written)


def _all_names(op: Operation) -> tuple[str, ...]:
    names = names_of(op)
    return tuple(name for name in dict.fromkeys((*names.nodes, *names.tensors, *names.absorbed)) if name)


def _text(value: Attribute) -> str:
    """An attribute of an operation for people: `array<i64: 1, 1>` as `1, 1`."""
    match value:
        case DenseArrayBase():
            return ", ".join(map(str, cast("DenseArrayBase[Any]", value).get_values()))
        case IntegerAttr():
            return str(value.value.data)
        case FloatAttr():
            return f"{value.value.data:g}"
        case StringAttr():
            return value.data
        case ArrayAttr():
            return ", ".join(_text(each) for each in value.data)
        case _:
            return str(value)


def _is_constant(value: SSAValue) -> bool:
    return isinstance(_producer(value).owner, ConstantOp)


def _producer(value: SSAValue) -> SSAValue:
    """The value that casts begin with: the result of a layer, of a constant, or an input of the network."""
    while isinstance(owner := value.owner, Operation) and owner.name in CASTS:
        value = owner.operands[0]
    return value


CASTS = ("quant.qcast", "quant.dcast", "quant.scast")
"""Operations that change types between layers; they are no layers."""


def _source(value: SSAValue, index: Mapping[SSAValue, int]) -> int:
    """The index of the layer that makes a value, or −1 − i for input i of the network."""
    made = _producer(value)
    return -1 - made.index if isinstance(made, BlockArgument) else index[made]


def _as_read(argument: SSAValue) -> SSAValue:
    """The quantized form of a network's input, if layers read it so."""
    casts = [use.operation for use in argument.uses if use.operation.name == "quant.qcast"]
    return casts[0].results[0] if casts else argument


def _tensor(value: SSAValue, profile: Profile | None, named: SSAValue | None = None) -> TensorFacts:
    """The facts of an activation; `named` carries its name if the value does not."""
    name = tensor_name(value) or (tensor_name(named) if named is not None else "")
    facts = _stored(value, name)
    owner = value.owner
    known = profile.tensors.get(name) if profile is not None else None
    if named is not None and profile is not None:
        known = profile.tensors.get(tensor_name(named), known)
    if known is None or not known.count or (isinstance(owner, Operation) and FACTORS.on(owner)):
        return facts  # channels that were equalized are not those of the profile
    return _with_histogram(facts, histogram_of(known))


def _stored(value: SSAValue, name: str) -> TensorFacts:
    """How a tensor is stored."""
    shape, element = shape_of(value), element_of(value)
    if not isinstance(element, UniformType):
        return TensorFacts(name, shape, str(element))
    scales, points = np.array(element.scales), np.array(element.zero_points)
    return TensorFacts(
        name,
        shape,
        f"{'i' if element.is_signed else 'u'}{element.storage_width}",
        quantized=True,
        scales=(float(scales.min()), float(scales.max())),
        points=(int(points.min()), int(points.max())),
        axis=element.axis,
        channels=len(scales),
        low=float(((element.storage_min - points) * scales).min()),
        high=float(((element.storage_max - points) * scales).max()),
    )


def _weights(op: Operation) -> TensorFacts | None:
    """The facts of the largest constant operand, if an operation has a constant of numbers."""
    constants = [v for v in op.operands if isinstance(v.owner, ConstantOp) and prod(shape_of(v)) > 1]
    if not constants:
        return None
    value = max(constants, key=lambda v: prod(shape_of(v)))
    assert isinstance(value.owner, ConstantOp)
    numbers: Array = value.owner.value.array
    if (element := quantized_element(value.type)) is not None:
        scales, points = element.parameters_along(numbers.ndim)
        numbers = (numbers.astype(np.float32) - points.astype(np.float32)) * scales.astype(np.float32)
    facts = _stored(value, tensor_name(value))
    if numbers.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
        return facts
    numbers = numbers.astype(np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    fits = high == low or high - low > BINS * np.spacing(max(abs(low), abs(high)))  # else bins have no width in floats
    counts, edges = np.histogram(numbers, BINS if fits else 1)
    return replace(facts, histogram=HistogramFacts(float(edges[0]), float(edges[1] - edges[0]), _integers(counts)))


# ---------------------------------------------------------------------------------------------------------------
# Histograms


def histogram_of(tensor: TensorProfile) -> Histogram:
    """Returns a tensor's histogram as the profile holds it."""
    width = 2.0**tensor.exponent
    return Histogram(tensor.first * width, width, tensor.counts.astype(np.float64))


def _with_histogram(facts: TensorFacts, histogram: Histogram) -> TensorFacts:
    """Adds a distribution, in bins for a screen, and the share of it beyond the thresholds."""
    beyond = None
    if facts.low is not None and facts.high is not None and facts.scales is not None and histogram.total:
        half = facts.scales[1] / 2  # what lies half a step beyond a threshold is rounded to it
        inside = histogram.below(np.array([facts.low - half, facts.high + half]))
        beyond = float(1 - (inside[1] - inside[0]) / histogram.total)
        beyond = 0.0 if beyond < 0.5 / histogram.total else beyond
    return replace(facts, histogram=_coarse(histogram), beyond=beyond)


def _coarse(histogram: Histogram) -> HistogramFacts:
    """Joins neighbouring bins until there are at most `BINS`."""
    joined = max(-(-len(histogram.counts) // BINS), 1)
    padded: Float64s = np.pad(histogram.counts, (0, -len(histogram.counts) % joined))
    return HistogramFacts(histogram.lo, histogram.width * joined, _integers(padded.reshape(-1, joined).sum(axis=1)))


def _integers(counts: Array) -> tuple[int, ...]:
    return tuple(int(count) for count in counts)


# ---------------------------------------------------------------------------------------------------------------
# What has to be measured


def _with_errors(facts: NetworkFacts, rows: Iterable[TensorError]) -> NetworkFacts:
    """Adds the errors of tensors to the layers that make them."""
    errors = {
        row.tensor: ErrorFacts(row.isolated_sqnr, row.isolated_cosine, row.cumulative_sqnr, row.cumulative_cosine)
        for row in rows
    }
    layers = tuple(replace(layer, errors=errors.get(layer.result.name)) for layer in facts.layers)
    return replace(facts, layers=layers)


def _with_times(facts: NetworkFacts, module: ModuleOp, given: Given) -> NetworkFacts:
    """Adds the time of calls on this processor, in all and of each layer."""
    signature = signature_of(main_function(module))
    inputs = list(islice(given.samples, TIMED)) or [random_inputs(signature, 0)]
    figures = measure(module, inputs, seconds=given.seconds)
    spent: dict[str, float] = {}
    for layer in figures["layers"]:
        spent[layer["name"]] = spent.get(layer["name"], 0.0) + layer["seconds"]
    sizes, latency = figures["bytes"], figures["latency"]
    timing = TimingFacts(
        figures["processor"],
        latency["runs"],
        latency["min"],
        latency["median"],
        figures["peak"]["macs_per_second"],
        sizes["weights"],
        sizes["arena"],
        sizes["code"],
        arena_map(module),
    )
    owners = _owners(facts.layers)
    layers = tuple(
        replace(layer, seconds=spent.get(layer.name) if owners.get(layer.name) == number else None)
        for number, layer in enumerate(facts.layers)
    )
    return replace(facts, layers=layers, timing=timing)


def _owners(layers: Sequence[LayerFacts]) -> dict[str, int]:
    """Which layer of each name counts as the owner of its time: of several, the one with the most products."""
    owners: dict[str, int] = {}
    for number, layer in enumerate(layers):
        known = owners.setdefault(layer.name, number)
        if layer.counts.macs > layers[known].counts.macs:
            owners[layer.name] = number
    return owners


def _fused(cost: DeviceFacts, numbers: Sequence[int], layers: Sequence[LayerFacts]) -> dict[int, DeviceFacts]:
    """The costs of layers that a device computes as one: the cost for the most products, and nothing for the others."""
    most = max(numbers, key=lambda number: layers[number].counts.macs)
    return {
        number: replace(
            cost if number == most else DeviceFacts(0, 0, ""),
            fused=", ".join(layers[other].name for other in numbers if other != number),
        )
        for number in numbers
    }


def _with_device(facts: NetworkFacts, executable: "Simulated") -> NetworkFacts:
    """Adds the predicted cost of a device, in all and of each layer."""
    report = executable.predicted
    owners, found, others = _owners(facts.layers), dict[int, DeviceFacts](), dict[str, DeviceFacts]()
    for computed in report.layers:
        cost = DeviceFacts(computed.cycles, computed.bound, computed.bound_by)
        names = [name for name in (computed.name, *computed.name.split(", ")) if name in owners]
        if not names:
            others[computed.name] = cost
        elif computed.name in owners:
            found[owners[computed.name]] = cost
        else:
            found |= _fused(cost, [owners[name] for name in names], facts.layers)
    layers = tuple(replace(layer, device=found.get(number)) for number, layer in enumerate(facts.layers))
    run = DeviceRun(
        executable.device.name,
        executable.device.clock,
        report.cycles,
        report.utilization,
        report.bound,
        tuple(entry for entry in executable.ledger if entry.code in ("host", *REMEDIES)),
        others,
        tuple(roofline(report, executable.device)),
        tuple(memory_maps(executable, tiles=len(executable.buffers) <= MOST_BUFFERS)),
    )
    return replace(facts, layers=layers, run=run)


def _accuracies(
    networks: Mapping[str, ModuleOp], samples: Iterable[Sample], classes: Int64s, exact: str | None
) -> dict[str, Accuracy]:
    """Scores networks on labelled samples.

    Args:
        networks: The networks by name.
        samples: Their inputs.
        classes: The class of each sample.
        exact: The name of the float network, whose decisions the others are compared with; None without.
    """
    runs = {name: Scored(module, True) for name, module in networks.items()}
    for sample in samples:
        for run in runs.values():
            run.add(sample, keeps=False)
    logits = {name: run.all_logits(classes) for name, run in runs.items()}
    truth = None if exact is None else logits[exact]
    return {name: _accuracy(found, classes, None if name == exact else truth) for name, found in logits.items()}


def _accuracy(found: Array, classes: Int64s, truth: Array | None) -> Accuracy:
    """Returns the score of logits in shares of the samples; `truth` are the float network's logits."""
    score, count = scored(found, classes), len(classes)
    assert score.top1 is not None
    assert score.top5 is not None
    return Accuracy(
        count,
        score.top1 / count,
        score.top5 / count if found.shape[1] > TOP else None,
        None if truth is None else agreeing(truth, found) / count,
    )
