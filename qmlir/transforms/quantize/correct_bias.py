"""`correct-bias`: shifts biases until quantization leaves the means of results as they were.

Rounded weights and saturated activations move the mean of each output channel, most where a channel sums few products,
as in depthwise convolutions. A bias can take the shift back:

    b[c] ← b[c] + mean(y_float[c] − y_quantized[c])

over calibration data, before the activation. Layer by layer: what a layer reads has been corrected already, so that
it corrects its own error and what the layers before it left. All layers at once, each for itself, diverges on deep
networks.

Enters and leaves: a float network with the casts of `choose-scales`. It has two readings: with the casts it means what
the quantized network means; without them it is the float network. Both are evaluated side by side.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn import ConstantOp, Conv2DOp, FullyConnectedOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.errors import FileError, OptionError, PipelineError
from qmlir.passes import option
from qmlir.signature import signature_of

Array = npt.NDArray[Any]
Samples = Iterable[Array | Mapping[str, Array]]

MEMORY = 512 << 20
"""Bytes that the values of all samples may take at a time; of a large network fewer samples serve."""


@dataclass(frozen=True)
class CorrectBiasPass(ModulePass):
    """Corrects biases between `choose-scales` and `quantize-ops`, on data.

    ```mlir
    %y = nn.conv2d %x, %w, %b : …
    // becomes
    %corrected = nn.constant <tensor<8xf32>, …> : tensor<8xf32>
    %y = nn.conv2d %x, %w, %corrected : …
    ```
    """

    name = "correct-bias"
    data: str = option("", "samples: a .npy file of the only input, or an .npz file with one array for each input")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.data:
            raise OptionError("correct-bias", "needs data", remedy='give some: --correct-bias="data=samples.npy"')
        correct_bias(op, some_samples(op, _samples(Path(self.data))))


def _samples(path: Path) -> Iterator[Array | Mapping[str, Array]]:
    """The samples of a file: the first axis counts them, and stays on each as its batch dimension of 1."""
    try:
        held: Any = np.load(path)
    except (OSError, ValueError) as error:
        raise FileError(path, "must be a .npy or an .npz file", got=" ".join(str(error).split())) from None
    if isinstance(held, np.ndarray):
        array = cast(Array, held)
        yield from (array[i : i + 1] for i in range(len(array)))
        return
    arrays: dict[str, Array] = dict(held)
    for i in range(min(map(len, arrays.values()), default=0)):
        yield {name: array[i : i + 1] for name, array in arrays.items()}


def correct_bias(module: ModuleOp, inputs: Sequence[Sequence[Array]]) -> int:
    """Corrects the biases of a network between `choose-scales` and `quantize-ops`.

    Args:
        module: Changed in place.
        inputs: Samples, each an array for each input.

    Returns:
        How many operations have a new bias.
    """
    return _Correction(network_of(module).body.block, inputs).run()


def some_samples(module: ModuleOp, samples: Samples) -> list[list[Array]]:
    """As many samples as can be evaluated at once, each an array for each input.

    Raises:
        PipelineError: There is not one sample.
        InputError: One is not what the network takes.
    """
    function = network_of(module)
    signature = signature_of(function)
    most = max(1, MEMORY // _live_bytes(function.body.block))
    inputs = [signature.arrays(sample) for sample in islice(samples, most)]
    if not inputs:
        raise PipelineError("correct-bias", "needs calibration data", got="no sample")
    return inputs


def network_of(module: ModuleOp) -> func.FuncOp:
    """The function that is the network: the first that is not private."""
    functions = [f for f in module.walk() if isinstance(f, func.FuncOp) and not f.is_declaration]
    return next((f for f in functions if f.sym_visibility is None), functions[0])


class _Correction:
    """Both readings of a block on all samples, as far as they are needed."""

    def __init__(self, block: Block, inputs: Sequence[Sequence[Array]]):
        self.block, self.samples = block, range(len(inputs))
        arguments = [[sample[i] for sample in inputs] for i in range(len(block.args))]
        self.floats: dict[SSAValue, list[Array]] = dict(zip(block.args, arguments, strict=True))
        self.quantized = dict(self.floats)
        values: list[SSAValue] = [*block.args, *(r for o in block.ops for r in o.results)]
        self.unread = {v: len(set(v.uses)) for v in values}
        self.corrected = 0

    def run(self) -> int:
        """Evaluates the block up to its last contraction; returns how many biases changed."""
        operations = list(self.block.ops)
        contractions = [i for i, op in enumerate(operations) if isinstance(op, WeightedOp)]
        for op in operations[: contractions[-1] + 1 if contractions else 0]:
            if isinstance(op, WeightedOp) and _is_cast(op.x):
                self._correct(op)
            elif op.results:
                self._evaluate(op)
            for operand in op.operands:
                self._release(operand)
        return self.corrected

    def _evaluate(self, op: Operation) -> None:
        meaning: Callable[..., tuple[Array, ...]] = cast(Any, op).evaluate
        if isinstance(op, ConstantOp):
            (value,) = meaning()
            self.floats[op.y] = self.quantized[op.y] = [value for _ in self.samples]
            return
        if isinstance(op, QuantizeCastOp) or (isinstance(op, DequantizeCastOp) and self._is_float(op.input)):
            self.floats[op.result] = self.floats[op.operands[0]]
        else:
            self._store(self.floats, op, [meaning(*self._read(self.floats, op, i)) for i in self.samples])
        self._store(self.quantized, op, [meaning(*self._read(self.quantized, op, i)) for i in self.samples])

    def _correct(self, op: WeightedOp) -> None:
        product, bias = linear_part(op), _bias(self.floats, op)
        pairs = [
            (product(*self._read(self.floats, op, i)[:2]), product(*self._read(self.quantized, op, i)[:2]))
            for i in self.samples
        ]
        axes = tuple(range(pairs[0][0].ndim - 1))
        shift = np.mean([(exact.astype(np.float64) - rounded).mean(axis=axes) for exact, rounded in pairs], axis=0)
        corrected = (bias + shift).astype(np.float32)
        self.floats[op.y] = [op.clamp(exact + bias) for exact, _ in pairs]
        self.quantized[op.y] = [op.clamp(rounded + corrected) for _, rounded in pairs]
        if np.isfinite(corrected).all() and (corrected != bias).any():
            self._set_bias(op, corrected)

    def _set_bias(self, op: WeightedOp, value: Array) -> None:
        attributes = dict(op.b.owner.attributes) if op.b is not None and isinstance(op.b.owner, Operation) else {}
        constant = ConstantOp(value, TensorType(f32, value.shape), attributes)
        Rewriter.insert_op(constant, InsertPoint.before(op))
        constant.y.name_hint = op.b.name_hint if op.b is not None else None
        op.operands = [op.x, op.w, constant.y]
        self.corrected += 1

    def _is_float(self, value: SSAValue) -> bool:
        return np.issubdtype(self.floats[value][0].dtype, np.floating)

    def _read(self, values: Mapping[SSAValue, list[Array]], op: Operation, sample: int) -> list[Array]:
        return [values[v][sample] for v in op.operands]

    def _store(self, values: dict[SSAValue, list[Array]], op: Operation, results: list[tuple[Array, ...]]) -> None:
        for i, result in enumerate(op.results):
            values[result] = [each[i] for each in results]

    def _release(self, value: SSAValue) -> None:
        """Forgets what nobody reads any more."""
        if value in self.unread:
            self.unread[value] -= 1
            if self.unread[value] <= 0:
                self.floats.pop(value, None)
                self.quantized.pop(value, None)


def _is_cast(value: SSAValue) -> bool:
    """Whether a value is read through a quantized type."""
    return isinstance(value.owner, DequantizeCastOp)


def _bias(values: Mapping[SSAValue, list[Array]], op: WeightedOp) -> Array:
    return np.zeros(op.output_channels(), np.float32) if op.b is None else values[op.b][0]


def linear_part(op: WeightedOp) -> Callable[[Array, Array], Array]:
    """The sums of products of a contraction, without bias and clamp: by BLAS where that is at hand."""
    if isinstance(op, FullyConnectedOp):
        return lambda x, w: x @ w.T
    if isinstance(op, Conv2DOp):
        return lambda x, w: _convolution(op, x, w)
    bare = op.clone()
    bare.operands = [bare.operands[0], bare.operands[1]]
    for bound in ("min", "max"):
        bare.properties.pop(bound, None)
    return lambda x, w: bare.evaluate(x, w)[0]


def _convolution(op: Conv2DOp, x: Array, w: Array) -> Array:
    windows = op.windows(x, (w.shape[1], w.shape[2]), 0)
    groups, each = op.group_count(), w.shape[3]
    rows = w.reshape(groups, w.shape[0] // groups, -1)
    parts = [windows[..., g * each : (g + 1) * each].reshape(*windows.shape[:3], -1) @ rows[g].T for g in range(groups)]
    return parts[0] if groups == 1 else np.concatenate(parts, axis=-1)


def _live_bytes(block: Block) -> int:
    """About what one sample's values take at once: both readings of what enters and leaves the largest operation."""
    sizes = [sum(int(np.prod(shape_of(v))) for v in (*o.operands, *o.results)) for o in block.ops if o.results]
    return 2 * 4 * 2 * max(sizes, default=1)
