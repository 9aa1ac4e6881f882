"""Finds the first tensor whose bits differ between two runs of a network.

Two runs are compared tensor by tensor, in program order. A run is a network on an executor:

    cpu         machine code for this processor
    reference   numpy, operation by operation
    a device    the simulator of a device, which is given as for `target=` elsewhere: the device, its name or its file

The networks are run with each named tensor as one more result, so that a fused operation shows its result only. Tensors
are compared as they are stored: quantized tensors as integers, floats by their bits, so that NaN equals itself.

A difference between executors on one network is a bug of qmlir, or of a pass or a device of the user's. A difference
between two networks on one executor is what the second network rounds otherwise, such as a network that follows another
runtime's numerics.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from qmlir.analysis.tensors import tapped
from qmlir.compiler import compile, loaded, main_function, reference
from qmlir.errors import OptionError, QmlirError, near_misses
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.interfaces import Array
from qmlir.ir.rewriting import tensor_name
from qmlir.policies.ledger import deciding_operations
from qmlir.settings.arguments import Network, samples_given

if TYPE_CHECKING:
    from qmlir.devices import Accelerator

CPU, REFERENCE = "cpu", "reference"
"""The executors that are no devices."""

Executor: TypeAlias = "Accelerator"
"""What runs a network: `CPU`, `REFERENCE`, or a device, its name or the path of its file."""


@dataclass(frozen=True)
class Difference:
    """What differs in one tensor, over all samples.

    tensor     the tensor's name
    operation  the operation that makes it, such as `nn.conv2d`; `input` for an input of the network
    elements   elements that differ
    of         elements that were compared
    largest    the largest distance of two elements that differ, in units of what is stored; NaN if one of them is NaN
    sample     the first sample in which an element differs, counted from 0
    place      the index of that element within the tensor
    values     that element in the first run and in the second
    """

    tensor: str
    operation: str
    elements: int
    of: int
    largest: float
    sample: int
    place: tuple[int, ...]
    values: tuple[float, float]

    def as_dict(self) -> dict[str, Any]:
        """Returns the difference as plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Agreement:
    """The comparison of two runs.

    compared     the names of the tensors that both runs have with one shape and type, in program order
    left_out     the names of tensors of the first run that the second run has otherwise, or not at all
    samples      the number of samples
    differences  the tensors that differ, in program order; empty if all bits are equal
    """

    compared: tuple[str, ...]
    left_out: tuple[str, ...]
    samples: int
    differences: tuple[Difference, ...]

    @property
    def first(self) -> Difference | None:
        """The first tensor that differs; the operation that makes it is where the two runs part."""
        return self.differences[0] if self.differences else None


def compare(
    network: Network,
    samples: Iterable[Array | Mapping[str, Array]],
    other: Network | None = None,
    *,
    executors: "tuple[Executor, Executor]" = (CPU, REFERENCE),
) -> Agreement:
    """Compares two runs of a network, or of two networks, tensor by tensor and bit by bit.

    Args:
        network: A network, or its path; it stays unchanged.
        samples: Arrays for the only input, or dicts of arrays by input name.
        other: The network of the second run; by default the same.
        executors: What runs the first network and the second: `cpu`, `reference`, or a device, its name, or the path
            of its file.

    Raises:
        OptionError: There are not two executors, or there is no such device.
        FileError: The file of a device cannot be read.
        QmlirError: The networks have no tensor in common, or there is no sample.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples)
    >>> qmlir.compare(q, samples).differences  # machine code and the reference give the same bits
    ()
    """
    found = [executor_given("executors", each) for each in executors]
    if len(found) != 2:
        raise OptionError("executors", "must be two, one for each run", got=str(len(found)))
    first = Run(network, found[0], "the first network")
    second = Run(network if other is None else other, found[1], "the second network")
    return _compared(first, second, samples)


def executor_given(option: str, given: object) -> "Executor":
    """Returns an executor: `CPU`, `REFERENCE` or a loaded device.

    Args:
        option: What the user gives it as, for errors.
        given: One of these, or a device's name or file.

    Raises:
        OptionError: It is something else, or there is no such device.
        FileError: The file of the device cannot be read.
    """
    if isinstance(given, str) and given in (CPU, REFERENCE):
        return given
    from qmlir.devices import Device, load_device, shipped_devices

    known = (CPU, REFERENCE, *shipped_devices())
    need = f"must be one of {', '.join(known)}, or the path of a .toml file"
    if not isinstance(given, str | Path | Device):
        raise OptionError(option, need, got=f"{given!r} of type {type(given).__name__}")
    try:
        return load_device(given)
    except OptionError:
        raise OptionError(option, need, got=str(given), remedy=near_misses(str(given), known)) from None


class _Callable(Protocol):
    """What executors have in common."""

    def run(self, inputs: Any, /) -> list[Array]: ...
    def reset(self) -> None: ...


class Run:
    """A network on an executor, with each named tensor as a result.

    names       the tensors, in program order
    operations  the operation that makes each of them, by name; `input` for inputs of the network
    """

    def __init__(self, network: Network, executor: "Executor", what: str, *, stored: bool = True):
        """Loads and compiles the network; `what` names it in errors, `stored` is as for `tapped`."""
        module = loaded(network)
        refuse_opaque(module, what)
        function = main_function(module)
        whole, self.names = tapped(module, function, stored=stored)
        if not self.names:
            raise QmlirError(f"{what} must have tensors with names", got="none")
        made = {tensor_name(r): op.name for op in deciding_operations(module) for r in op.results}
        self.operations = {name: made.get(name, "input") for name in self.names}
        self._callable: _Callable
        if executor == CPU:
            self._callable = compile(whole)
        elif executor == REFERENCE:
            self._callable = reference(whole)
        else:
            self._callable = compile(whole, target=executor)

    def reset(self) -> None:
        """Gives all states the values that they have before the first sample."""
        self._callable.reset()

    def tensors(self, sample: Array | Mapping[str, Array]) -> dict[str, Array]:
        """Returns the tensors of one sample, by name."""
        return dict(zip(self.names, self._callable.run(sample)[-len(self.names) :], strict=True))


def _compared(first: Run, second: Run, samples: Iterable[Array | Mapping[str, Array]]) -> Agreement:
    found: dict[str, Difference] = {}
    shared: list[str] | None = None
    count = 0
    for sample in samples_given(samples):
        ours, theirs = first.tensors(sample), second.tensors(sample)
        if shared is None:
            shared = [n for n in ours if n in theirs and _form(ours[n]) == _form(theirs[n])]
            if not shared:
                raise QmlirError(
                    "the networks must have tensors of the same names, shapes and types", got="none in common"
                )
        for name in shared:
            unequal = _bits(ours[name]) != _bits(theirs[name])
            if unequal.any():
                new = _difference(name, first.operations[name], ours[name], theirs[name], unequal, count)
                found[name] = new if name not in found else _joined(found[name], new)
        count += 1
    if shared is None:
        raise QmlirError("a comparison needs at least one sample", got="none")
    names = [name for name in shared if name in found]
    differences = [replace(found[n], of=found[n].of * count) for n in names]
    left_out = [name for name in first.names if name not in shared]
    return Agreement(tuple(shared), tuple(left_out), count, tuple(differences))


def _form(array: Array) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return array.shape, array.dtype


def _bits(array: Array) -> Array:
    """Returns the array's bits as unsigned integers, so that NaN equals itself and 0.0 does not equal -0.0."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _difference(name: str, operation: str, ours: Array, theirs: Array, unequal: Array, sample: int) -> Difference:
    """The difference of a tensor in one sample; `of` counts the elements of this sample."""
    place = tuple(int(i) for i in np.argwhere(unequal)[0])
    a, b = ours[unequal].astype(np.float64), theirs[unequal].astype(np.float64)
    largest = float(np.abs(a - b).max())
    return Difference(
        name,
        operation,
        int(unequal.sum()),
        ours.size,
        largest,
        sample,
        place,
        (float(ours[place]), float(theirs[place])),
    )


def _joined(known: Difference, new: Difference) -> Difference:
    """The difference over both; the place is that of the sample that came first."""
    largest = float(np.maximum(known.largest, new.largest))  # NaN stays
    return replace(known, elements=known.elements + new.elements, largest=largest)
