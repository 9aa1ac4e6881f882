"""The float and the quantized reading of a network between `choose-scales` and `quantize-ops`, evaluated side by side.

Such a network has two readings: with its casts it means what the quantized network means; without them it is the float
network. Both are evaluated on all samples, operation after operation; at each contraction steps may change its weights
and its bias, and what follows reads what they left. So each layer is adjusted to what the layers before it have become.
"""

import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn import ConstantOp, Conv2DOp, FullyConnectedOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.weights import WeightsAttr
from qmlir.errors import FileError, OptionError, PipelineError, QmlirWarning
from qmlir.profiles import require_finite
from qmlir.signature import Signature, signature_of
from qmlir.transforms.quantize.one_thread import on_one_thread

Array = npt.NDArray[Any]
Samples = Iterable[Array | Mapping[str, Array]]

UNROUNDED = "qmlir.unrounded"
"""The attribute key, on a constant whose values a quantized type has exactly, of what the float network has there."""

MEMORY = 512 << 20
"""Bytes that the values of all samples may take at a time; of a large network fewer samples serve."""


@dataclass
class Layer:
    """A contraction in both readings; steps change the operation, and say here what its weights and bias are now.

    op                  the contraction
    x, read             what it reads for each sample, without casts and with them
    weights, stored     its weights, without casts and with them, as floats
    bias, corrected     its bias, zeros where it has none, as it was and as it is
    """

    op: WeightedOp
    x: list[Array]
    read: list[Array]
    weights: Array
    stored: Array
    bias: Array
    corrected: Array
    _exact: list[Array] | None = field(default=None, init=False, repr=False)

    def exact_sums(self) -> list[Array]:
        """Sums of products of the float reading, without bias and clamp."""
        if self._exact is None:
            product = linear_part(self.op)
            self._exact = [product(x, self.weights) for x in self.x]
        return self._exact

    def sums(self) -> list[Array]:
        """Sums of products of the quantized reading, with the weights as they are now."""
        product = linear_part(self.op)
        return [product(x, self.stored) for x in self.read]


Step = Callable[[Layer], bool]
"""Adjusts a contraction; whether anything changed."""


def _samples_in(path: Path, signature: Signature) -> Iterator[Array | dict[str, Array]]:
    """The samples of a file: the first axis counts them, before the batch dimension of 1 or in its place."""
    try:
        held: Any = np.load(path)
        arrays: dict[str, Array] = {"": held} if isinstance(held, np.ndarray) else dict(held)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(path, "must be a .npy or an .npz file", got=" ".join(str(error).split())) from None
    ranks = {spec.name: len(spec.shape) for spec in signature.inputs} | {"": len(signature.inputs[0].shape)}
    for i in range(min(map(len, arrays.values()), default=0)):
        sample = {n: a[i] if a.ndim == ranks.get(n, a.ndim) + 1 else a[i : i + 1] for n, a in arrays.items()}
        yield sample[""] if "" in sample else sample


def samples_given(module: ModuleOp, name: str, file: str) -> list[list[Array]]:
    """The samples of the file that the pass `name` was given, as `some_samples` has them.

    Raises:
        OptionError: There is no file.
        FileError: It holds no samples.
    """
    if not file:
        raise OptionError(name, "needs data", remedy=f'give some: --{name}="data=samples.npy"')
    return some_samples(module, _samples_in(Path(file), signature_of(network_of(module))))


def samples_at_once(module: ModuleOp) -> int:
    """How many samples of a network can be evaluated at once, 1 or more."""
    live = max(1, _live_bytes(network_of(module).body.block))  # tensors without elements take no bytes
    return max(1, MEMORY // live)


def warn_of_fewer(module: ModuleOp, used: int, given: int | None) -> None:
    """Warns that not all samples are used, and why; `given` is how many there are, if anybody knows."""
    each = _live_bytes(network_of(module).body.block) / 2**20
    text = f"weights are rounded and biases corrected on {used} of {given or 'the'} samples: the values of one take "
    text += f"{each:.3g} MiB, and those of all that are evaluated at once may take {MEMORY >> 20} MiB"
    warnings.warn(text, QmlirWarning, stacklevel=2)


def some_samples(module: ModuleOp, samples: Samples) -> list[list[Array]]:
    """As many samples as can be evaluated at once, each an array for each input; a warning says if these are not all.

    Raises:
        PipelineError: There is not one sample.
        InputError: One is not what the network takes.
        ProfileError: One is not finite.
    """
    function = network_of(module)
    signature = signature_of(function)
    rest = iter(samples)
    inputs = [signature.arrays(sample) for sample in islice(rest, samples_at_once(module))]
    if inputs and next(rest, None) is not None:
        warn_of_fewer(module, len(inputs), len(samples) if isinstance(samples, Sized) else None)
    if not inputs:
        raise PipelineError("quantize", "needs calibration data", got="no sample")
    for number, sample in enumerate(inputs):
        for tensor, array in zip(signature.inputs, sample, strict=True):
            require_finite(tensor.name, array, f" on sample {number} (counted from 0)")
    return inputs


def network_of(module: ModuleOp) -> func.FuncOp:
    """The function that is the network: the first that is not private."""
    functions = [f for f in module.walk() if isinstance(f, func.FuncOp) and not f.is_declaration]
    return next((f for f in functions if f.sym_visibility is None), functions[0])


class SideBySide:
    """Both readings of a block on all samples, as far as they are needed."""

    def __init__(self, block: Block, inputs: Sequence[Sequence[Array]]):
        self.block, self.samples = block, range(len(inputs))
        arguments = [[sample[i] for sample in inputs] for i in range(len(block.args))]
        self.floats: dict[SSAValue, list[Array]] = dict(zip(block.args, arguments, strict=True))
        self.quantized = dict(self.floats)
        values: list[SSAValue] = [*block.args, *(r for o in block.ops for r in o.results)]
        self.unread = {v: len(set(v.uses)) for v in values}
        self.fixed: set[SSAValue] = set()

    @on_one_thread
    def run(self, *steps: Step) -> int:
        """Evaluates the block up to its last contraction, with steps at each; returns how many they changed."""
        operations = list(self.block.ops)
        contractions = [i for i, op in enumerate(operations) if isinstance(op, WeightedOp)]
        changed = 0
        for op in operations[: contractions[-1] + 1 if contractions else 0]:
            operands = list(op.operands)
            empty = any(0 in shape_of(v) for v in op.results)
            if isinstance(op, WeightedOp) and is_cast(op.x) and not empty:
                changed += self._adjust(op, steps)
            elif op.results:
                self._evaluate(op)
            for operand in operands:
                self._release(operand)
        return changed

    def _adjust(self, op: WeightedOp, steps: Sequence[Step]) -> bool:
        bias = np.zeros(op.output_channels(), np.float32) if op.b is None else self.floats[op.b][0]
        layer = Layer(
            op,
            self.floats[op.x],
            self.quantized[op.x],
            self.floats[op.w][0],
            self.quantized[op.w][0],
            bias,
            bias,
        )
        changed = [step(layer) for step in steps]
        self.floats[op.y] = [op.clamp(sums + layer.bias) for sums in layer.exact_sums()]
        self.quantized[op.y] = [op.clamp(sums + layer.corrected) for sums in layer.sums()]
        return any(changed)

    def _evaluate(self, op: Operation) -> None:
        meaning: Callable[..., tuple[Array, ...]] = cast(Any, op).evaluate
        if isinstance(op, ConstantOp) or all(v in self.fixed for v in op.operands):
            self.fixed.update(op.results)
        if isinstance(op, QuantizeCastOp) or (isinstance(op, DequantizeCastOp) and self._is_float(op.input)):
            self.floats[op.result] = self.floats[op.operands[0]]
        else:
            self._store(self.floats, op, meaning)
        self._store(self.quantized, op, meaning)
        if isinstance(op, ConstantOp) and isinstance(held := op.attributes.get(UNROUNDED), WeightsAttr):
            self.floats[op.y] = [held.array for _ in self.samples]

    def _is_float(self, value: SSAValue) -> bool:
        return np.issubdtype(self.floats[value][0].dtype, np.floating)

    def _store(
        self, values: dict[SSAValue, list[Array]], op: Operation, meaning: Callable[..., tuple[Array, ...]]
    ) -> None:
        """The results of an operation for each sample; those of constants are computed once."""
        samples = self.samples[:1] if op.results[0] in self.fixed else self.samples
        results = [meaning(*(values[v][i] for v in op.operands)) for i in samples]
        for i, result in enumerate(op.results):
            each = [r[i] for r in results]
            values[result] = each * len(self.samples) if result in self.fixed else each

    def _release(self, value: SSAValue) -> None:
        """Forgets what nobody reads any more."""
        if value in self.unread:
            self.unread[value] -= 1
            if self.unread[value] <= 0:
                self.floats.pop(value, None)
                self.quantized.pop(value, None)


def is_cast(value: SSAValue) -> bool:
    """Whether a value is read through a quantized type."""
    return isinstance(value.owner, DequantizeCastOp)


def linear_part(op: WeightedOp) -> Callable[[Array, Array], Array]:
    """The sums of products of a contraction, without bias and clamp: by BLAS where that is at hand."""
    if isinstance(op, FullyConnectedOp):
        return lambda x, w: x @ w.T
    if isinstance(op, Conv2DOp):
        return lambda x, w: _convolution(op, x, w)
    bare = op.clone()
    bare.operands = Block(arg_types=[op.x.type, op.w.type]).args  # or the network's values would have one more reader
    for bound in ("min", "max"):
        bare.properties.pop(bound, None)
    return lambda x, w: bare.evaluate(x, w)[0]


def _convolution(op: Conv2DOp, x: Array, w: Array) -> Array:
    windows = op.windows(x, (w.shape[1], w.shape[2]), 0)
    groups, each = op.group_count(), w.shape[3]
    terms = int(np.prod(w.shape[1:]))
    rows, shape = w.reshape(groups, w.shape[0] // groups, terms), (*windows.shape[:3], terms)
    parts = [windows[..., g * each : (g + 1) * each].reshape(shape) @ rows[g].T for g in range(groups)]
    return parts[0] if groups == 1 else np.concatenate(parts, axis=-1)


def _live_bytes(block: Block) -> int:
    """About what one sample's values take at once: both readings of what enters and leaves the largest operation."""
    sizes = [sum(int(np.prod(shape_of(v))) for v in (*o.operands, *o.results)) for o in block.ops if o.results]
    return 2 * 4 * 2 * max(sizes, default=1)
