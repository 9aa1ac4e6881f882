"""The facts about a network that a report shows, as plain data: layers, tensors, errors, times, decisions.

Dataclasses only: gather.py fills them in, the page draws them, and JSON can hold them. A fact that nobody measured is
None, so that a reader of the data can tell "not measured" from zero.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from qmlir.analysis.memory_map import MemoryMap
from qmlir.analysis.roofline import Roofline
from qmlir.policies.ledger import Entry


@dataclass(frozen=True)
class Counts:
    """What one call of an operation computes, stores and moves.

    macs          products of a contraction; 0 for other operations
    weight_bytes  bytes of its constant operands, biases included
    read          bytes of its other operands
    written       bytes of its results
    """

    macs: int = 0
    weight_bytes: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        mine, more = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + more[name] for name in mine})


@dataclass(frozen=True)
class HistogramFacts:
    """How often the values of a tensor lie in each of some equal bins.

    low     where the first bin begins
    width   the width of a bin
    counts  the number of values in each bin
    """

    low: float
    width: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class TensorFacts:
    """A tensor, how it is stored, and which values it takes.

    name       its name in the source model; empty if it has none
    shape      its shape
    type       the type of its elements as stored, such as `i8` or `f32`
    quantized  whether the stored integers stand for real numbers
    scales     the least and the greatest scale; None unless quantized
    points     the least and the greatest zero point; None unless quantized
    axis       the dimension whose indices have a scale each; None if the tensor has one scale
    channels   the number of scales
    low, high  thresholds: the least and the greatest real number that the integers can represent, over all channels
    histogram  the distribution of the float network's values, or of the weights themselves
    beyond     the share of these values that lies beyond the thresholds; None if unknown
    """

    name: str
    shape: tuple[int, ...]
    type: str
    quantized: bool = False
    scales: tuple[float, float] | None = None
    points: tuple[int, int] | None = None
    axis: int | None = None
    channels: int = 0
    low: float | None = None
    high: float | None = None
    histogram: HistogramFacts | None = None
    beyond: float | None = None


@dataclass(frozen=True)
class ErrorFacts:
    """How far a tensor is from the float network's, as signal to noise in dB (SQNR) and as a cosine.

    own, own_cosine      the error that the layer adds if it reads the float network's tensors; None if not computed
    whole, whole_cosine  the error in the quantized network, from its input to here
    """

    own: float | None
    own_cosine: float | None
    whole: float
    whole_cosine: float


@dataclass(frozen=True)
class DeviceFacts:
    """The cost of a layer on a device, as the cost model predicts it.

    cycles    cycles of the layer
    bound     busy cycles of the resource that works longest for it: fewer are impossible
    bound_by  the name of that resource
    fused     the names of the layers that the device computes together with it; the cost of all of them is that of the
              layer with the most products
    """

    cycles: int
    bound: int
    bound_by: str
    fused: str = ""


@dataclass(frozen=True)
class LayerFacts:
    """An operation of a network that computes or moves data.

    name        the names of the source nodes that it stands for, joined by `+`; else its tensor or its kind
    operation   its kind, such as `nn.conv2d`
    names       all names that it can be found by: nodes and tensors, those absorbed by fusing included
    attributes  what the operation's kind leaves open, such as strides, as text
    inputs      where its data come from: the index of a layer, or −1 − i for input i of the network
    result      its result; the first, if there are several
    weights     its largest constant operand; None without
    counts      its products, weights and bytes
    decision    how it is stored and why; None for a network that was never quantized
    errors      how far its result is from the float network's
    seconds     time of a call on this processor
    device      its cost on a device
    """

    name: str
    operation: str
    names: tuple[str, ...]
    attributes: Mapping[str, str]
    inputs: tuple[int, ...]
    result: TensorFacts
    weights: TensorFacts | None
    counts: Counts
    decision: Entry | None
    errors: ErrorFacts | None = None
    seconds: float | None = None
    device: DeviceFacts | None = None


@dataclass(frozen=True)
class TimingFacts:
    """The time of calls on this processor.

    processor        the processor
    runs             the number of measured calls
    least, median    seconds of the fastest call, and of half of the calls at most
    peak             products that one thread can compute in a second
    weights, arena   bytes of weights and of scratch memory of the compiled network
    code             bytes of its machine code
    map              what lies where in the scratch memory, over the calls of kernels
    """

    processor: str
    runs: int
    least: float
    median: float
    peak: float
    weights: int
    arena: int
    code: int
    map: MemoryMap


@dataclass(frozen=True)
class DeviceRun:
    """The predicted cost of a network on a device.

    device       the device's name
    clock        its clock in MHz
    cycles       cycles of a call
    utilization  products as a share of what its array could compute in that time
    bound        the share that would be used if nothing ever waited
    on_host      decisions about the operations that its host computes
    others       costs of layers that are no layers of the network, by name: casts, and calls of the host
    rooflines    a roofline for each memory that has a bandwidth
    maps         what lies where in each memory, over the cycles of a call
    """

    device: str
    clock: float
    cycles: int
    utilization: float
    bound: float
    on_host: tuple[Entry, ...]
    others: Mapping[str, DeviceFacts]
    rooflines: tuple[Roofline, ...]
    maps: tuple[MemoryMap, ...]


@dataclass(frozen=True)
class Accuracy:
    """How often the largest logit is the right one; logits are the outputs, or what a final softmax reads.

    samples    labelled samples
    top1       the share of them whose largest logit is the label's
    top5       the share of them whose label is among the five largest logits; None with five classes or fewer
    agreement  the share of them whose largest logit is the float network's; None of the float network itself
    """

    samples: int
    top1: float
    top5: float | None
    agreement: float | None


@dataclass(frozen=True)
class NetworkFacts:
    """One network of a report.

    name       what the report calls it
    quantized  whether it computes on integers
    inputs     its inputs
    outputs    the indices of the layers that make its outputs, or −1 − i for input i
    layers     its layers in program order
    timing     the time of its calls
    run        its cost on a device
    accuracy   its accuracy on labelled samples
    """

    name: str
    quantized: bool
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[int, ...]
    layers: tuple[LayerFacts, ...]
    timing: TimingFacts | None = None
    run: DeviceRun | None = None
    accuracy: Accuracy | None = None

    @property
    def counts(self) -> Counts:
        """The sums over all layers; weights that two layers share count twice."""
        return sum((layer.counts for layer in self.layers), Counts())


@dataclass(frozen=True)
class Facts:
    """All facts of a report.

    networks  the float network first, if there is one, then the quantized networks
    compared  the number of samples over which errors were computed; 0 if there were none
    profiled  the number of samples that the histograms are of; 0 if there were none
    missing   what is not shown, and what to give for it: sentences by the name of a part of the report
    """

    networks: tuple[NetworkFacts, ...]
    compared: int
    profiled: int
    missing: Mapping[str, str]
