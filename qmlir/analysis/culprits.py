"""Finds the operations of a quantized network that cost its outputs most: by effect, not by what they err themselves.

The error of an operation is its result on the float network's tensors, quantized as the operation reads and writes
them, less the float result. The float network then runs with these errors added to the tensors of some operations,
everything else exact; what its outputs move by is the effect of these operations. An operation may be coarse and have
no effect, and an operation that errs little may ruin the outputs behind it.

Effects of single operations are found by halving: a group of operations, in program order, is as bad as its effect,
and the worst group is halved until the worst operations stand alone. That takes about 2·log2(n) evaluations for each
of them in place of n. numpy evaluates, as in quality.py, and the number of evaluations follows from the time that they
take by estimate.
"""

import heapq
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.output_measure import decibels, with_errors
from qmlir.analysis.own_errors import Errors
from qmlir.analysis.quality import SECONDS, exact_reference, seconds_of
from qmlir.analysis.tensors import channel_factors, isolated, least_of_masked, origin_of, tapped
from qmlir.backends.cpu.products import adding_in_machine_code
from qmlir.compiler import compile, main_function, reference
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.errors import QmlirError
from qmlir.ir.callable_network import CallableNetwork
from qmlir.ir.interfaces import Array
from qmlir.ir.rewriting import tensor_name
from qmlir.policies.ledger import deciding_operations
from qmlir.transforms.quantize.adjust.side_by_side import on_one_thread

SHOWN = 3
"""The operations that are named."""

FEWEST = 24
"""The evaluations that a search may make, whatever they take."""

NEGLIGIBLE = 1e-9
"""The effect, as noise over signal, below which operations are no culprits: 90 dB."""


@dataclass(frozen=True)
class Culprit:
    """An operation that costs the outputs.

    tensor     the name of its result
    operation  its kind, such as `nn.conv2d`
    effect     SQNR in dB that the worst output has if this operation alone is quantized
    own        SQNR in dB of the operation's result if it alone is quantized
    """

    tensor: str
    operation: str
    effect: float
    own: float

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON; an infinite figure becomes None, as JSON has no infinity."""
        return {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in asdict(self).items()}


@adding_in_machine_code
def culprits(module: ModuleOp, quantized: ModuleOp, samples: Iterable[Any], *, most: int = SHOWN) -> list[Culprit]:
    """Returns the operations with the largest effect on the outputs, the largest first.

    Args:
        module: The float network; it stays unchanged.
        quantized: The network that `quantize` made of it; it stays unchanged.
        samples: Samples, of which the first are used, as many as the time allows, at least one.
        most: The most operations to return.

    Raises:
        QmlirError: A network cannot be evaluated.
    """
    allowed = max(FEWEST * 2, int(2 * SECONDS / max(seconds_of(module), 1e-6)))
    return Effects(module, quantized, islice(iter(samples), max(1, min(2, allowed // 200)))).worst(most, allowed)


class Effects:
    """The errors of the operations of a quantized network, and what the outputs move by if some of them are made.

    names  the tensors with errors, in program order
    """

    @on_one_thread
    def __init__(
        self, module: ModuleOp, quantized: ModuleOp, samples: Iterable[Any], *, compiled: "Injected | None" = None
    ):
        """Evaluates both networks on samples; see `culprits`.

        Args:
            module: The float network; it stays unchanged.
            quantized: The network that `quantize` made of it; it stays unchanged.
            samples: The samples, all of which are used.
            compiled: Networks with errors that were compiled for other networks quantized from this one; numpy
                evaluates without. Compiling takes as long as about a hundred evaluations in numpy.
        """
        origin = origin_of(module, quantized)
        tapped_module, known = tapped(origin, main_function(origin))
        floats = exact_reference(tapped_module)
        alone_module, taken, self.names = isolated(main_function(quantized), known)
        alone = reference(alone_module)
        self._injected, self._slots = numpy_network(origin) if compiled is None else compiled.of(origin)
        factors, least = channel_factors(quantized), least_of_masked(origin, quantized)
        self._zeros: list[Array] = []
        self._inputs: list[list[Array]] = []
        self._errors: list[dict[str, Array]] = []
        self._exact: list[Mapping[str, Array]] = []
        with np.errstate(all="ignore"):
            for flat in floats.replayed(samples):
                inputs = list(flat.values())
                exact = dict(zip(known, floats.run_in_order(inputs)[-len(known) :], strict=True)) if known else {}
                exact = {n: np.maximum(a, least[n]) if n in least else a for n, a in exact.items()}
                read = {n: (a * factors[n]).astype(np.float32) if n in factors else a for n, a in exact.items()}
                given = [np.ascontiguousarray(read[name]) for name in taken]
                found = dict(zip(self.names, alone.run_in_order(given), strict=True)) if self.names else {}
                self._inputs.append(inputs)
                self._exact.append(exact)
                self._errors.append({n: _finite((found[n] - read[n]) / factors.get(n, 1)) for n in self.names})
            self._truth = [self._run(i, {}) for i in range(len(self._inputs))]
        makers = {tensor_name(r): op for op in deciding_operations(quantized) for r in op.results}
        self._kinds = {name: op.name for name, op in makers.items() if not keeps_scale(op)}
        names = [n for n in self.names if n in self._slots and n in self._kinds]  # those that add an error of their own
        self.names = [n for n in names if any(errors[n].any() for errors in self._errors)]

    def _run(self, sample: int, errors: Mapping[str, Array]) -> list[Array]:
        if not self._zeros:
            specs = self._injected.signature.flat().inputs[len(self._inputs[sample]) :]
            self._zeros = [np.zeros(s.shape, s.dtype) for s in specs]
        slots = zip(self._slots, self._zeros, strict=True)
        given = [np.ascontiguousarray(errors[n], zero.dtype) if n in errors else zero for n, zero in slots]
        return [np.array(y) for y in self._injected.run_in_order([*self._inputs[sample], *given])]

    @on_one_thread
    def noise(self, names: Sequence[str]) -> float:
        """Returns the noise over the signal of the worst output if the operations of these tensors alone err."""
        sums = np.zeros((len(self._truth[0]), 2)) if self._truth else np.zeros((0, 2))
        with np.errstate(all="ignore"):
            for i, truth in enumerate(self._truth):
                found = self._run(i, {name: self._errors[i][name] for name in names})
                for j, (f, q) in enumerate(zip(truth, found, strict=True)):
                    sums[j] += _powers(f, q)
        return max((float(noise / signal) for signal, noise in sums if signal), default=0.0)

    def noises_of(self, errors: Errors) -> dict[str, float]:
        """Returns the noise over the signal of the worst output for each part, if its tensor has this error alone."""
        kept = self._errors
        try:
            found = [zip(errors.parts, errors.of(exact), strict=True) for exact in self._exact]
            self._errors = [{part.tensor: _finite(error) for part, error in each} for each in found]
            return {part.tensor: self.noise([part.tensor]) for part in errors.parts if part.tensor in self._slots}
        finally:
            self._errors = kept

    def worst(self, most: int, evaluations: int, least: float = NEGLIGIBLE) -> list[Culprit]:
        """Returns the operations of the largest effects: `most` at most, of no less noise than `least`.

        Args:
            most: The most operations.
            evaluations: The evaluations that the search may make; the coarsest of a group is named behind them.
            least: Noise over signal below which groups are left alone.
        """
        found: list[Culprit] = []
        if not self.names:
            return found
        waiting = [(-self.noise(self.names), 0, self.names)]
        while waiting and len(found) < most:
            noise, place, group = heapq.heappop(waiting)
            if -noise < least:
                break
            if len(group) == 1:
                found.append(self._culprit(group[0], -noise))
                continue
            if evaluations <= 0:  # name the coarsest of the group
                name = min(group, key=self.own)
                heapq.heappush(waiting, (-self.noise([name]), place, [name]))
                continue
            half = len(group) // 2
            for start, part in ((place, group[:half]), (place + half, group[half:])):
                heapq.heappush(waiting, (-self.noise(part), start, part))
            evaluations -= 2 * len(self._inputs)
        return found

    def own(self, name: str) -> float:
        """Returns the SQNR in dB of a tensor if its operation alone is quantized."""
        powers = [_powers(e[name], e[name] + error[name]) for e, error in zip(self._exact, self._errors, strict=True)]
        signal, noise = np.sum(powers, axis=0)
        return decibels(noise / signal) if signal else -math.inf

    def _culprit(self, name: str, noise: float) -> Culprit:
        return Culprit(name, self._kinds[name], decibels(noise), self.own(name))


class Injected:
    """Compiled float networks that take errors, each compiled once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[CallableNetwork, list[str]]] = {}

    def of(self, origin: ModuleOp) -> tuple[CallableNetwork, list[str]]:
        """Returns a network that takes an error for each tensor, and the tensors; numpy's, if it cannot be compiled."""
        key = tuple((op.name, *map(tensor_name, op.results)) for op in main_function(origin).body.block.ops)
        if key not in self._made:
            injected, slots = with_errors(origin)
            try:
                self._made[key] = compile(injected), slots
            except QmlirError:
                self._made[key] = exact_reference(injected), slots
        return self._made[key]


def numpy_network(origin: ModuleOp) -> tuple[CallableNetwork, list[str]]:
    """Returns a network that takes an error for each tensor, which numpy evaluates, and the tensors."""
    injected, slots = with_errors(origin)
    return exact_reference(injected), slots


def _finite(error: Array) -> Array:
    """Returns an error with zeros where one of the two results is no number."""
    return np.where(np.isfinite(error), error, 0)


def _powers(exact: Array, found: Array) -> tuple[float, float]:
    """Returns the power of the signal and of the noise, where float has a number; of integers, of what differs."""
    if not np.issubdtype(exact.dtype, np.floating):
        return float(exact.size), float((exact != found).sum())
    numbers = np.isfinite(exact)
    f, q = exact[numbers].astype(np.float64), found[numbers].astype(np.float64)
    noise = float((q - f) @ (q - f))
    return float(f @ f), math.inf if math.isnan(noise) else noise
