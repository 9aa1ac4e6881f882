"""The signature of a network as numpy sees it: names, shapes and dtypes of its inputs and outputs.

Every back end calls a network in the same way. A single input or output is an array; several are a dict of arrays by
tensor name. Signatures need numpy only; what reads them from a function imports the IR when it is called.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from qmlir.errors import InputError, QmlirError
from qmlir.numerics import Array, native

if TYPE_CHECKING:
    from xdsl.dialects import func
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, TensorType
    from xdsl.ir import Attribute, Operation


MEMORY = ("fast", "small")
"""What code is made for: `fast` packs and copies data where that saves time, `small` keeps scratch memory small."""

MOST_THREADS = 256
"""The most threads that may share the items of a kernel's call."""

RUN_SHARES = "qmlir.pool2.run"
"""The function by which compiled code runs a loop in several threads; the CPU back end provides it (its pool.py)."""


def batch_symbol(entry: str) -> str:
    """Returns the name of the function that calls an entry for each sample of a batch."""
    return f"{entry}_batch"


@dataclass(frozen=True)
class Batch:
    """The batches that compiled code takes.

    most    the most samples of a call
    inputs  for each input whether it has samples along its first axis; the samples of a call share the other inputs
    """

    most: int
    inputs: tuple[bool, ...]


class Count(NamedTuple):
    """An output with fewer elements along an axis than its shape says.

    output  its place among the outputs
    axis    the axis
    number  the place of the output that says how many elements count
    """

    output: int
    axis: int
    number: int


@dataclass(frozen=True)
class TensorSpec:
    """One input or output: its tensor's name, its shape and its dtype.

    quantization  scale and zero point, if the elements stand for scale · (integer − zero point)
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    quantization: tuple[float, int] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.described(1)

    def described(self, samples: int) -> str:
        """Returns the dtype and the shape as text, for up to so many samples along the first axis."""
        first = [f"1 to {samples}", *self.shape[1:]] if samples > 1 else self.shape
        return f"{self.dtype.name}[{', '.join(map(str, first))}]"

    def of(self, samples: int) -> "TensorSpec":
        """Returns the specification of the tensor of several samples, along its first axis."""
        return replace(self, shape=(samples, *self.shape[1:]))


@dataclass(frozen=True, eq=False)
class State:
    """A value that lives from call to call (states.py): an argument of the function, and its next value, a result.

    argument  the tensor before a call
    result    the tensor behind it, of the same shape and dtype
    places    the place of the argument among all arguments of the function, and that of the result among all results
    reset     the value before the first call
    in_place  whether a call of compiled code may be given one array for both
    """

    argument: TensorSpec
    result: TensorSpec
    places: tuple[int, int]
    reset: Array
    in_place: bool = False

    @staticmethod
    def stored(
        arguments: Sequence[TensorSpec], results: Sequence[TensorSpec], places: tuple[int, int], data: bytes,
        in_place: bool = False,
    ) -> "State":  # fmt: skip
        """Returns a state of a function with these arguments and results; `data` are its reset value's `data`."""
        argument, result = arguments[places[0]], results[places[1]]
        held = data or bytes(math.prod(argument.shape) * argument.dtype.itemsize)
        return State(argument, result, places, np.frombuffer(held, argument.dtype).reshape(argument.shape), in_place)

    @property
    def data(self) -> bytes:
        """The bytes of the reset value, as files keep them: none if all are 0."""
        held = self.reset.tobytes()
        return held if any(held) else b""


@dataclass(frozen=True)
class Signature:
    """The inputs that a caller gives to a network and the outputs that it gets, in order, and the states between calls.

    The function itself has the states among its arguments and results: `flat` is its signature. `counts` lists outputs
    whose sizes depend on the data. With a `batch`, shapes are those of one sample, and all outputs have samples along
    their first axes.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    states: tuple[State, ...] = ()
    counts: tuple[Count, ...] = ()
    batch: Batch | None = None

    @staticmethod
    def of(
        arguments: Sequence[TensorSpec],
        results: Sequence[TensorSpec],
        states: Sequence[State],
        module: "Operation | None" = None,
    ) -> "Signature":
        """Returns the signature of a function with some states, from all of its arguments and results in order.

        `module` records the results whose sizes depend on the data.
        """
        befores, afters = {state.places[0] for state in states}, {state.places[1] for state in states}
        outputs = tuple(spec for i, spec in enumerate(results) if i not in afters)
        return Signature(
            tuple(spec for i, spec in enumerate(arguments) if i not in befores),
            outputs,
            tuple(states),
            counts_of(module, outputs),
        )

    def flat(self) -> "Signature":
        """Returns the signature of the function alone: states are inputs and outputs like the others."""
        if not self.states:
            return self
        arguments = {state.places[0]: state.argument for state in self.states}
        results = {state.places[1]: state.result for state in self.states}
        return Signature(tuple(_merged(self.inputs, arguments)), tuple(_merged(self.outputs, results)))

    def names(self) -> tuple[list[str], list[str]]:
        """Returns the names of the inputs and those of the outputs, in order."""
        return [spec.name for spec in self.inputs], [spec.name for spec in self.outputs]

    def described(self) -> str:
        """Returns the signature on a line: `image: float32[1, 28, 28] → scores: float32[1, 10]`, and its states."""
        samples = self.most_samples(), [1 if self.batch is None else self.batch.most] * len(self.outputs)
        sides = (
            ", ".join(f"{s.name}: {s.described(most)}" for s, most in zip(specs, counts, strict=True))
            for specs, counts in zip((self.inputs, self.outputs), samples, strict=True)
        )
        kept = ", ".join(f"{state.argument.name}: {state.argument}" for state in self.states)
        return " → ".join(sides) + (f", keeps {kept}" if kept else "")

    def most_samples(self) -> list[int]:
        """Returns the most samples that each input may have along its first axis; 1 for an input without samples."""
        if self.batch is None:
            return [1] * len(self.inputs)
        return [self.batch.most if batched else 1 for batched in self.batch.inputs]

    def samples_in(self, arrays: Sequence[Array]) -> int:
        """Returns how many samples the inputs of a call have, which `arrays` has checked."""
        return 1 if self.batch is None else len(arrays[self.batch.inputs.index(True)])

    @property
    def output_bytes(self) -> int:
        """The bytes of all outputs."""
        return sum(math.prod(spec.shape) * spec.dtype.itemsize for spec in self.outputs)

    def arrays(self, inputs: Array | Mapping[str, Array]) -> list[Array]:
        """Returns the inputs in the signature's order, as C-contiguous arrays.

        Args:
            inputs: The array of the only input, or arrays by tensor name.

        Raises:
            InputError: An input is missing, unknown, or has another shape or dtype than the network's input; or inputs
                have other numbers of samples than each other.
        """
        if not isinstance(inputs, Mapping):
            if len(self.inputs) == 1:
                return [checked(self.inputs[0], inputs, *self.most_samples())]
            names = ", ".join(spec.name for spec in self.inputs)
            raise InputError(names, "must be given by name", got="one array", remedy="pass a dict of arrays")
        known = {spec.name for spec in self.inputs}
        for name in inputs:
            if name not in known:
                raise InputError(str(name), f"must be one of {', '.join(sorted(known)) or 'none at all'}")
        given = [checked(s, inputs.get(s.name), n) for s, n in zip(self.inputs, self.most_samples(), strict=True)]
        self._check_samples(given)
        return given

    def _check_samples(self, arrays: Sequence[Array]) -> None:
        """Raises InputError unless all inputs with samples have as many of them."""
        samples = self.samples_in(arrays)
        for spec, array, batched in zip(self.inputs, arrays, self.batch.inputs if self.batch else (), strict=False):
            if batched and len(array) != samples:
                assert self.batch is not None
                first = self.inputs[self.batch.inputs.index(True)].name
                raise InputError(spec.name, f'must have as many samples as "{first}", {samples}', got=str(len(array)))

    def result(self, arrays: Sequence[Array]) -> Any:
        """Returns the only output's array, or a dict of arrays by tensor name.

        Outputs whose sizes depend on the data are cut to what counts, and the numbers are left out.
        """
        if not self.counts:
            return self.whole(arrays)
        found = self.counted(arrays)
        return next(iter(found.values())) if len(found) == 1 else found

    def whole(self, arrays: Sequence[Array]) -> Any:
        """Returns the only output's array, or a dict of arrays by tensor name, each as large as its shape says."""
        if len(arrays) == 1:
            return arrays[0]
        return {spec.name: array for spec, array in zip(self.outputs, arrays, strict=True)}

    def counted(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Returns the arrays by tensor name, cut to what counts, without the numbers."""
        cut, numbers = list(arrays), {count.number for count in self.counts}
        for output, axis, number in self.counts:
            cut[output] = arrays[output][(slice(None),) * axis + (slice(0, int(arrays[number])),)]
        return {spec.name: cut[i] for i, spec in enumerate(self.outputs) if i not in numbers}

    def stacked(self, samples: Sequence[Sequence[Array]]) -> dict[str, Array]:
        """Returns the outputs of several samples by tensor name, [samples, …].

        Outputs whose sizes depend on the data are as large as the largest of them, and the numbers are among them.
        """
        found = [np.stack([arrays[i] for arrays in samples]) for i in range(len(self.outputs))]
        for output, axis, number in self.counts:
            most = int(found[number].max(initial=0))
            found[output] = found[output][(slice(None),) * (axis + 1) + (slice(0, most),)]
        return {spec.name: array for spec, array in zip(self.outputs, found, strict=True)}

    def joined(self, given: Sequence[Array], held: Sequence[Array]) -> list[Array]:
        """Returns the function's arguments in order: what a caller gives, and the states in the signature's order."""
        return list(_merged(given, {state.places[0]: a for state, a in zip(self.states, held, strict=True)}))

    def parted(self, results: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """Returns what a caller gets of the function's results, and the next values of the states."""
        places = [state.places[1] for state in self.states]
        return [a for i, a in enumerate(results) if i not in places], [results[i] for i in places]


T = TypeVar("T")


def _merged(others: Sequence[T], placed: Mapping[int, T]) -> Iterator[T]:
    """Yields a sequence in which some items have their places and the others fill the rest."""
    rest = iter(others)
    for i in range(len(others) + len(placed)):
        yield placed[i] if i in placed else next(rest)


def checked(spec: TensorSpec, array: object, samples: int = 1) -> Array:
    """Returns an array as a network takes it for a tensor: C-contiguous and in native byte order.

    Args:
        spec: The tensor.
        array: The array.
        samples: The most samples that the array may have along its first axis, if more than one.

    Raises:
        InputError: The array has another shape or dtype.
    """
    if not isinstance(array, np.ndarray):
        got = "nothing" if array is None else type(array).__name__
        raise InputError(spec.name, f"must be given as an array {spec.described(samples)}", got=got)
    given = cast(Array, array)
    if given.dtype != spec.dtype:  # the same numbers in the other byte order will do
        given = given.astype(native(given.dtype), copy=False)
    shape = spec.shape
    if samples > 1 and given.ndim and 1 <= given.shape[0] <= samples:
        shape = (given.shape[0], *shape[1:])
    if given.shape != shape or given.dtype != spec.dtype:
        got = f"{given.dtype.name}[{', '.join(map(str, given.shape))}]"
        raise InputError(spec.name, f"must be {spec.described(samples)}", got=got)
    flags = given.flags
    return given if flags.c_contiguous and flags.aligned else np.require(given, requirements=("C", "A"))


def signature_of(function: "func.FuncOp") -> Signature:
    """Returns the signature of a function on tensors; unnamed values are called `input0`, …, `output0`, …"""
    from qmlir.ir.states import reset_value, states_of

    types = function.function_type.inputs.data
    arguments = _specs(types, function.arg_attrs, "input")
    results = _specs(function.function_type.outputs.data, function.res_attrs, "output")
    states = [
        State(arguments[i], results[state.index], (i, state.index), reset_value(types[i], state))
        for i, state in states_of(function).items()
    ]
    return replace(Signature.of(arguments, results, states, function.parent_op()), batch=batch_of(function))


def batch_attribute(most: int, inputs: Sequence[bool]) -> "DictionaryAttr":
    """Returns the attribute of a function whose code takes batches."""
    from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, i1, i64

    batched = DenseArrayBase.from_list(i1, [int(each) for each in inputs])
    return DictionaryAttr({"most": IntegerAttr(most, i64), "inputs": batched})


def batch_of(function: "Operation") -> Batch | None:
    """Returns the batches that a function's code takes, as `batch-samples` has marked it; None if it was not marked."""
    from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr

    from qmlir.ir.facts import SAMPLES

    match SAMPLES.of(function):
        case DictionaryAttr(data={"most": IntegerAttr() as most, "inputs": DenseArrayBase() as inputs}):
            flags = cast("DenseArrayBase[Any]", inputs).get_values()
            return Batch(most.value.data, tuple(bool(flag) for flag in flags))
        case _:
            return None


def counts_of(module: "Operation | None", outputs: Sequence[TensorSpec]) -> tuple[Count, ...]:
    """Returns the outputs whose sizes depend on the data, as the module records them."""
    if module is None:  # of a network on disk, which is loaded without xDSL
        return ()
    from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr

    from qmlir.ir.facts import COUNTS

    if (given := COUNTS.of(module)) is None:
        return ()
    places, found = {spec.name: i for i, spec in enumerate(outputs)}, list[Count]()
    for name, entry in given.data.items():
        match entry:
            case ArrayAttr(data=(IntegerAttr() as axis, StringAttr(data=number))) if {name, number} <= places.keys():
                count = Count(places[name], axis.value.data, places[number])
            case _:
                continue
        if 0 <= count.axis < len(outputs[count.output].shape) and not outputs[count.number].shape:
            found.append(count)
    return tuple(found)


def _specs(
    types: "Sequence[Attribute]", attributes: "ArrayAttr[DictionaryAttr] | None", fallback: str
) -> tuple[TensorSpec, ...]:
    from xdsl.dialects.builtin import MemRefType, TensorType

    specs: list[TensorSpec] = []
    taken: set[str] = set()
    for i, type in enumerate(types):
        known = _tensor_named(attributes.data[i]) if attributes is not None else ""
        name = wanted = known or f"{fallback}{i}"
        n = 1
        while name in taken:  # a value that is returned twice
            name, n = f"{wanted}.{n}", n + 1
        taken.add(name)
        if not isinstance(type, TensorType | MemRefType):
            raise _untyped(fallback, name, type)
        shaped = cast("TensorType[Attribute]", type)
        element = shaped.element_type
        if min(shaped.get_shape(), default=0) < 0:
            raise _untyped(fallback, name, shaped)
        try:
            dtype = _dtype(element, name)
        except KeyError:
            raise _untyped(fallback, name, shaped) from None
        specs.append(TensorSpec(name, shaped.get_shape(), dtype, _quantization(element)))
    return tuple(specs)


def _untyped(side: str, name: str, type: "Attribute") -> QmlirError:
    """The error about an input or output whose type says no array: unranked, of open size, or of no numbers."""
    return QmlirError(
        "must be a tensor of numbers with a known shape",
        where=f'{side} "{name}" of the network',
        got=str(type),
        remedy="state its type in the model, or leave it out",
    )


def _tensor_named(attributes: "DictionaryAttr") -> str:
    from qmlir.ir.facts import NAME

    name = NAME.among(attributes.data)
    return name.tensors[0] if name is not None and name.tensors else ""


def _quantization(element: "Attribute") -> tuple[float, int] | None:
    """Returns the scale and the zero point of a quantized type that has one of each."""
    from qmlir.ir.types import IntegerElement

    if not isinstance(element, IntegerElement) or element.axis is not None or len(element.scales) != 1:
        return None
    return element.scales[0], element.zero_points[0]


def _dtype(element: "Attribute", name: str) -> np.dtype[Any]:
    from qmlir.ir.types import IntegerElement, QuantizedElement, dtype_of

    if isinstance(element, IntegerElement):
        return element.numpy_dtype
    if isinstance(element, QuantizedElement):
        raise QmlirError(
            "needs integers with one scale, or one for each index of one axis",
            where=f'tensor "{name}"',
            got=str(element),
            remedy="quantize per tensor or per axis",
        )
    return dtype_of(element)


def defined_functions(module: "ModuleOp") -> "list[func.FuncOp]":
    """Returns the functions of a module that have a body."""
    from xdsl.dialects import func

    return [op for op in module.walk() if isinstance(op, func.FuncOp) and not op.is_declaration]


def main_function(module: "ModuleOp") -> "func.FuncOp":
    """Returns the function that is the network: `main`, or the only one that is not private."""
    found = entry_functions(module)
    if len(found) > 1:
        names = ", ".join(f.sym_name.data for f in found)
        remedy = 'choose an entry by --entry NAME (in Python qmlir.load(path, entry="NAME")), or write it to a file of '
        remedy += "its own by qmlir import --raw --entry NAME"
        raise QmlirError(
            "must have one public function, or one called main", where="the module", got=names, remedy=remedy
        )
    return found[0]


def entry_functions(module: "ModuleOp") -> "list[func.FuncOp]":
    """Returns the functions that callers may call: `main`, or all that are not private, the entries (entries.py).

    Raises:
        QmlirError: There is no such function.
    """
    from xdsl.dialects import func

    functions = [o for o in module.body.block.ops if isinstance(o, func.FuncOp) and not o.is_declaration]
    found = [f for f in functions if f.sym_name.data == "main"] or [f for f in functions if f.sym_visibility is None]
    if not found:
        names = ", ".join(f.sym_name.data for f in functions) or "none"
        raise QmlirError("must have one public function, or one called main", where="the module", got=names)
    return found
