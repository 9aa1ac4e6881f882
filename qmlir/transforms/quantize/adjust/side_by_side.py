"""Evaluates the float and the quantized reading of a network side by side, before `quantize-ops` joins them."""

import math
import warnings
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qmlir.dialects.nn import ConstantOp, Conv2DOp, DivideRowsOp, FullyConnectedOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import is_plain_sum
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.errors import FileError, OptionError, PipelineError, QmlirWarning
from qmlir.ir.context import QmlirContext
from qmlir.ir.facts import UNROUNDED
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.replayed import Call
from qmlir.ir.signature import Signature, defined_functions, signature_of
from qmlir.profiles.tensor_profile import require_finite
from qmlir.settings.quant_config import OpConfig, config_of, op_config_of
from qmlir.transforms.quantize.adjust.nominal import Meaning, for_all_samples, nominal_meaning

# ---------------------------------------------------------------------------------------------------------------
# Makes sums independent of the number of threads.
#
# BLAS divides a matrix product among as many threads as there are processors, and each division adds in another order.
# The last bits of a sum can decide in which direction a weight is rounded, so decisions on data are computed on one
# thread.


P = ParamSpec("P")
T = TypeVar("T")


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function so that BLAS uses one thread while the function runs."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        # Importing it sets a variable of the environment: not before someone quantizes.
        from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone


# ---------------------------------------------------------------------------------------------------------------
# Evaluates the float and the quantized reading of a network side by side, between `choose-scales` and `quantize-ops`.
#
# Such a network has two readings: with its casts it means what the quantized network means; without them it is the
# float network. Both are evaluated on all samples, operation after operation. At each contraction (a convolution or
# fully connected layer), steps may change the weights and the bias, and the operations behind it read the changed
# result. So each layer is adjusted to the layers before it as they are after their own adjustment.


Samples = Iterable[Array | Mapping[str, Array]]


MEMORY = 512 << 20
"""Bytes that the values of all samples may take at a time by default; a large network is evaluated on fewer samples."""


@dataclass
class Layer:
    """A contraction in both readings; a step that changes it also updates `stored` or `corrected`.

    op                  the contraction
    x, read             its data for each sample, without casts and with casts
    weights, stored     its weights, without casts and with casts, as floats
    bias, corrected     its bias before and after correction, zeros if the operation has no bias
    """

    op: WeightedOp
    x: list[Array]
    read: list[Array]
    weights: Array
    stored: Array
    bias: Array
    corrected: Array
    _exact: list[Array] | None = field(default=None, init=False, repr=False)
    _sums: tuple[Array, list[Array]] | None = field(default=None, init=False, repr=False)

    def exact_sums(self) -> list[Array]:
        """Sums of products of the float reading for each sample, without bias and clamp."""
        if self._exact is None:
            product = linear_part(self.op)
            self._exact = [product(x, self.weights) for x in self.x]
        return self._exact

    def sums(self) -> list[Array]:
        """Sums of products of the quantized reading for each sample, with the weights as they are now."""
        if self._sums is None or self._sums[0] is not self.stored:
            product = linear_part(self.op)
            self._sums = self.stored, [product(x, self.stored) for x in self.read]
        return self._sums[1]


Step = Callable[[Layer], bool]
"""Adjusts a contraction; returns whether anything changed."""


def _samples_in(path: Path, signature: Signature) -> Iterator[Array | dict[str, Array]]:
    """The samples of a file: the first axis of an array counts them, before or in place of a batch dimension of 1."""
    try:
        held: Any = np.load(path)
        arrays: dict[str, Array] = {"": held} if isinstance(held, np.ndarray) else dict(held)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(path, "must be a .npy or an .npz file", got=" ".join(str(error).split())) from None
    ranks = {spec.name: len(spec.shape) for spec in signature.inputs} | {"": len(signature.inputs[0].shape)}
    for i in range(min(map(len, arrays.values()), default=0)):
        sample = {n: a[i] if a.ndim == ranks.get(n, a.ndim) + 1 else a[i : i + 1] for n, a in arrays.items()}
        yield sample[""] if "" in sample else sample


@dataclass(frozen=True)
class SampledPass(ModulePass):
    """A pass that decides on calibration samples: those of the file in the module's settings, or of the context."""

    @on_one_thread
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.adjust(network_of(op), self._samples(ctx, op), ctx)

    @abstractmethod
    def adjust(self, function: func.FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> object:
        """Changes the network in place, by samples that are each an array for each input."""

    def _samples(self, ctx: Context, module: ModuleOp) -> Sequence[Sequence[Array]]:
        """The samples, with the limit and the errors of `some_samples`; all passes on a context work on the same.

        Raises:
            OptionError: The settings name no file, and the context has no samples.
            FileError: The file is not a .npy or an .npz file.
        """
        held: dict[str, Any] = ctx.samples if isinstance(ctx, QmlirContext) else {}
        data = config_of(module).data
        if data and data not in held:
            held[data] = _samples_in(Path(data), signature_of(network_of(module)).flat())
        if data not in held:
            remedy = 'give some before: --apply-policy="settings={data=samples.npy}"'
            raise OptionError(self.name, "needs data", remedy=remedy)
        if not isinstance(held[data], Taken):
            budget = ctx.samples_budget if isinstance(ctx, QmlirContext) else None
            held[data] = Taken(some_samples(module, held[data], budget))
        return held[data]


class Taken(list[Sequence[Array]]):
    """Samples as the passes read them: checked, as many as fit into memory, and each an array for each input."""


def samples_at_once(module: ModuleOp, budget: int | None = None) -> int:
    """The number of samples of a network that can be evaluated at once, at least 1.

    Args:
        module: The network.
        budget: Bytes that the values of all samples may take; None for `MEMORY`.
    """
    live = max(1, _live_bytes(network_of(module).body.block))  # tensors without elements take no bytes
    return max(1, (MEMORY if budget is None else budget) // live)


def warn_of_fewer(module: ModuleOp, used: int, given: int | None, budget: int | None = None) -> None:
    """Warns that not all samples are used, and why; `given` is the number of all samples, None if it is unknown."""
    each, most = _live_bytes(network_of(module).body.block) / 2**20, MEMORY if budget is None else budget
    text = f"weights are rounded and biases corrected on {used} of {given or 'the'} samples: the values of one take "
    text += f"{each:.3g} MiB, and those of all that are evaluated at once may take {most / 2**20:.6g} MiB; "
    text += "--memory-budget, or memory_budget in Python, gives them more"
    warnings.warn(text, QmlirWarning, stacklevel=2)


def some_samples(module: ModuleOp, samples: Samples, budget: int | None = None) -> list[Sequence[Array]]:
    """As many samples as can be evaluated at once, each an array for each input; a warning says if these are not all.

    Args:
        module: The network.
        samples: The samples.
        budget: Bytes that the values of all samples may take; None for `MEMORY`.

    Raises:
        PipelineError: There is no sample.
        InputError: A sample does not fit the network's inputs.
        ProfileError: A sample is not finite.
    """
    function = network_of(module)
    signature = signature_of(function).flat()
    rest = iter(samples)
    names = [tensor.name for tensor in signature.inputs]
    inputs = [
        sample.in_order(names) if isinstance(sample, Call) else signature.arrays(sample)
        for sample in islice(rest, samples_at_once(module, budget))
    ]
    if inputs and next(rest, None) is not None:
        warn_of_fewer(module, len(inputs), len(samples) if isinstance(samples, Sized) else None, budget)
    if not inputs:
        raise PipelineError("quantize", "needs calibration data", got="no sample")
    for number, sample in enumerate(inputs):
        for tensor, array in zip(signature.inputs, sample, strict=True):
            require_finite(tensor.name, array, f" on sample {number} (counted from 0)")
    return inputs


def network_of(module: ModuleOp) -> func.FuncOp:
    """The network's function: the first that is not private."""
    functions = defined_functions(module)
    return next((f for f in functions if f.sym_visibility is None), functions[0])


class SideBySide:
    """The values of a block in both readings on all samples; a value is dropped after its last reader."""

    def __init__(self, block: Block, inputs: Sequence[Sequence[Array]]):
        self.block, self.inputs, self.samples = block, inputs, range(len(inputs))
        self.floats: dict[SSAValue, list[Array]] = {}
        self.quantized: dict[SSAValue, list[Array]] = {}
        values: list[SSAValue] = [*block.args, *(r for o in block.ops for r in o.results)]
        self.unread = {v: len(set(v.uses)) for v in values}
        self.fixed: set[SSAValue] = set()

    @on_one_thread
    def run(self, *steps: Step) -> int:
        """Evaluates the block up to the last contraction that takes the steps, each of which may change it.

        Contractions that give sums of 32 bits stay as they are, unless they read quotients of rows, which are all as
        loud: the error that steps lessen follows the loud samples, and the readers of other sums need the digits of
        the quiet ones. Behind the last contraction that takes steps, nothing is evaluated: of a language model whose
        rows have scales of their own, and whose weights are rounded to the nearest, nothing at all.

        Returns:
            The number of contractions that a step changed.
        """
        operations = list(self.block.ops)
        default = config_of(operations[0]).op_config()
        adjusted = [i for i, op in enumerate(operations) if _takes_steps(op, default)]
        if not adjusted:
            return 0
        self.floats = {argument: [sample[i] for sample in self.inputs] for i, argument in enumerate(self.block.args)}
        self.quantized, changed = dict(self.floats), 0
        for op in operations[: adjusted[-1] + 1]:
            operands = list(op.operands)
            if isinstance(op, WeightedOp) and _takes_steps(op, default):
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
        if isinstance(op, ConstantOp) or all(v in self.fixed for v in op.operands):
            self.fixed.update(op.results)
        if isinstance(op, QuantizeCastOp) or (isinstance(op, DequantizeCastOp) and self._is_float(op.input)):
            self.floats[op.result] = self.floats[op.operands[0]]
        else:
            self._store(self.floats, op, nominal_meaning(op, rounds=False))
        self._store(self.quantized, op, nominal_meaning(op))
        if isinstance(op, ConstantOp) and (held := UNROUNDED.of(op)) is not None:
            self.floats[op.y] = [held.array for _ in self.samples]

    def _is_float(self, value: SSAValue) -> bool:
        return np.issubdtype(self.floats[value][0].dtype, np.floating)

    def _store(self, values: dict[SSAValue, list[Array]], op: Operation, meaning: Meaning) -> None:
        """Computes the results of an operation for each sample; results that depend on constants alone only once."""
        if op.results[0] in self.fixed:
            once = meaning(*(values[v][0] for v in op.operands))
            results = [[array] * len(self.samples) for array in once]
        else:
            results = for_all_samples(op, meaning, [values[v] for v in op.operands])
        values.update(zip(op.results, results, strict=True))

    def _release(self, value: SSAValue) -> None:
        """Counts off one reader of a value, and drops the value after its last reader."""
        if value in self.unread:
            self.unread[value] -= 1
            if self.unread[value] <= 0:
                self.floats.pop(value, None)
                self.quantized.pop(value, None)


def _takes_steps(op: Operation, default: OpConfig) -> bool:
    """Whether an operation is a contraction of quantized data that steps may change."""
    if not isinstance(op, WeightedOp) or not is_cast(op.x) or any(0 in shape_of(v) for v in op.results):
        return False
    return not gives_words(op) or (_reads_quotients(op) and not op_config_of(op, default).rounds_to_nearest)


def _reads_quotients(op: WeightedOp) -> bool:
    """Whether a contraction reads rows that were divided by their largest magnitudes."""
    cast = op.x.owner.input.owner if isinstance(op.x.owner, DequantizeCastOp) else None
    return isinstance(cast, QuantizeCastOp) and isinstance(cast.input.owner, DivideRowsOp)


def gives_words(op: WeightedOp) -> bool:
    """Whether the result of a contraction is cast to sums of 32 bits."""
    return any(isinstance(u.operation, QuantizeCastOp) and is_plain_sum(u.operation.result) for u in op.y.uses)


def cast_of_weights(op: WeightedOp) -> QuantizeCastOp | None:
    """The cast that rounds the constant weights of a contraction; None if they are stored, float or computed."""
    back = op.w.owner
    cast = back.input.owner if isinstance(back, DequantizeCastOp) else None
    return cast if isinstance(cast, QuantizeCastOp) and isinstance(cast.input.owner, ConstantOp) else None


def is_cast(value: SSAValue) -> bool:
    """Whether a value is read through a quantized type."""
    return isinstance(value.owner, DequantizeCastOp)


def linear_part(op: WeightedOp) -> Callable[[Array, Array], Array]:
    """Returns a function of data and weights: the sums of products of a contraction, without bias and clamp."""
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
    """About how many bytes a sample takes at once: operands and results of the largest operation in both readings.

    Weights, and all else that no input reaches, are held once for all samples.
    """
    varying, largest = set[SSAValue](block.args), 1
    for op in block.ops:
        if not varying.isdisjoint(op.operands):
            varying.update(op.results)
            largest = max(largest, sum(math.prod(shape_of(v)) for v in (*op.operands, *op.results) if v in varying))
    return 2 * 4 * 2 * largest
