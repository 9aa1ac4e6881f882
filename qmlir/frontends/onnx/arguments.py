"""Inputs of a model that are sequences of tensors or optional, as arguments that are tensors.

A function of the IR takes tensors. How many tensors a sequence has is no part of its type, so a user says it:

    bind={"frames": 3}    the sequence `frames` becomes the arguments `frames.0`, `frames.1` and `frames.2`
    bind={"mask": 0}      the optional input `mask` is left out; else it is there

A symbol N in the shape of a sequence's tensors may be another size in each; that of the first is called `frames.0.N`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from qmlir.errors import FileError, OptionError, UnsupportedError, near_misses
from qmlir.frontends.function import Value, sized
from qmlir.frontends.onnx.ordering import graphs
from qmlir.frontends.onnx.sequences import Absent, Listed
from qmlir.ir.interfaces import Shape

MOST_TENSORS = 10_000
"""The most tensors of a sequence, each of which becomes an argument."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a model.

    given     each input with the names and types of its arguments; no list of them if it is a tensor
    bind      the sizes that are no numbers of tensors
    """

    given: Sequence[tuple[onnx.ValueInfoProto, list[onnx.ValueInfoProto] | None]]
    bind: Mapping[str, int]

    @staticmethod
    def of(inputs: Sequence[onnx.ValueInfoProto], bind: Mapping[str, int], file: str) -> "Inputs":
        """Takes inputs apart.

        Args:
            inputs: The model's inputs.
            bind: Sizes of symbolic dimensions, and numbers of tensors of inputs that are sequences or optional.
            file: The model's file, for errors.

        Raises:
            OptionError: A number of tensors is negative, too large, or more than one for an optional tensor.
            FileError: An input is neither a tensor nor a sequence, or `bind` lacks a sequence's number of tensors.
        """
        given = [(info, _arguments(info, bind, file)) for info in inputs]
        counted = {info.name for info, arguments in given if arguments is not None}
        return Inputs(given, {name: size for name, size in bind.items() if name not in counted})

    def arguments(self) -> list[onnx.ValueInfoProto]:
        """Returns the names and types of all arguments."""
        return [each for info, arguments in self.given for each in ([info] if arguments is None else arguments)]

    def values(self, arguments: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
        """Yields the name and the value of each input, made of the arguments by name."""
        for info, own in self.given:
            if own is None:
                yield info.name, arguments[info.name]
            elif _sequence(info) is not None and (own or not info.type.HasField("optional_type")):
                yield info.name, Listed([arguments[each.name] for each in own])
            else:
                yield info.name, arguments[own[0].name] if own else Absent()


def _arguments(info: onnx.ValueInfoProto, bind: Mapping[str, int], file: str) -> list[onnx.ValueInfoProto] | None:
    """Returns the arguments that an input becomes; None if it is a tensor."""
    kind = info.type.WhichOneof("value")
    if kind not in ("sequence_type", "optional_type"):
        return None
    sequence, count = _sequence(info), bind.get(info.name)
    option = f"--bind {info.name}={count}"
    if sequence is None:
        if count not in (None, 0, 1):
            raise OptionError(option, "an optional tensor is there or not, 1 or 0", got=str(count))
        return [] if count == 0 else [_named(info.name, info.type.optional_type.elem_type)]
    if count is None:
        raise FileError(
            file, f'input "{info.name}" is a sequence, whose number of tensors must be given', got="none",
            remedy=f'give --bind {info.name}=…, or in Python bind={{"{info.name}": …}}',
        )  # fmt: skip
    if not 0 <= count <= MOST_TENSORS:
        raise OptionError(option, f"a sequence must have 0 to {MOST_TENSORS} tensors", got=str(count))
    return [_element(f"{info.name}.{place}", sequence.elem_type) for place in range(count)]


def _sequence(info: onnx.ValueInfoProto) -> onnx.TypeProto.Sequence | None:
    """Returns the type of a sequence, which may be optional; None if the input is none."""
    kind = info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
    return kind.sequence_type if kind.HasField("sequence_type") else None


def _named(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_value_info(name, kind)


def _element(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    """Returns a tensor of a sequence, with symbols of its own."""
    info = _named(name, kind)
    for dim in info.type.tensor_type.shape.dim:
        if dim.dim_param:
            dim.dim_param = f"{name}.{dim.dim_param}"
    return info


# ---------------------------------------------------------------------------------------------------------------
# The dimensions of a model's tensors that are no numbers: which they are, and the sizes that users bind them to.
#
# Some tools write −1 for a dimension of any size, or "?". onnxruntime reads a negative size as none, and so does
# qmlir. It also takes no size from what the file states about a tensor in the middle if that contradicts the nodes,
# and old tools write 0 there for what they do not know: such a size is dropped, too, and shape inference says what it
# is.
#
# All shapes in the IR are static. An unbound symbol that is the first dimension of some input is the batch and becomes
# 1. Any other unbound symbol is an error that names the symbol. A dimension with neither a size nor a symbol gets the
# symbol `<input>.<axis>`.


# ---------------------------------------------------------------------------------------------------------------
# Sizes that are none


ANY = "?"
"""What Paddle's exporter calls each dimension of any size: no symbol, since such dimensions may differ."""


def without_negative_sizes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model whose tensors have no dimensions that are negative or `ANY`, nor tensors in the middle some of 0.

    The given model is left as it is.
    """
    if next(_sizes_that_are_none(proto), None) is None:
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for dim in list(_sizes_that_are_none(copy)):
        dim.Clear()
    return copy


def _sizes_that_are_none(proto: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for graph in graphs(proto.graph):
        for infos, least in ((graph.input, 0), (graph.output, 1), (graph.value_info, 1)):
            dims = (d for info in infos for d in _tensor_of(info.type).shape.dim)
            yield from (d for d in dims if d.dim_param == ANY or (d.HasField("dim_value") and d.dim_value < least))


def _tensor_of(kind: onnx.TypeProto) -> onnx.TypeProto.Tensor:
    """Returns the type of a tensor, or of the tensors of a sequence or an optional; an empty type of others."""
    while (field := kind.WhichOneof("value")) in ("optional_type", "sequence_type"):
        kind = getattr(kind, field).elem_type
    return kind.tensor_type


# ---------------------------------------------------------------------------------------------------------------
# Sizes of symbols


def bind_shapes(
    inputs: Iterable[onnx.ValueInfoProto], bind: Mapping[str, int], file: str, further: Iterable[str] = ()
) -> dict[str, Shape]:
    """Returns the static shape of each input, by name.

    Args:
        inputs: The graph's inputs that are arguments.
        bind: Sizes of symbolic dimensions.
        file: The model's file, for errors.
        further: Symbols that `bind` may name although no argument has them: those of inputs that are cut off.

    Raises:
        OptionError: `bind` has a symbol that the model lacks, or a size below 1.
        FileError: An input is not a tensor, lacks a shape, has a symbol without a value, or is too large.
    """
    dims = {i.name: _input_dimensions(i, file) for i in inputs}
    symbols = [d for shape in dims.values() for d in shape if isinstance(d, str)]
    for symbol, size in bind.items():
        if symbol not in (*symbols, *further):
            raise OptionError(
                f"--bind {symbol}={size}",
                "must bind a symbolic dimension of the model",
                remedy=near_misses(symbol, symbols) or ("it has none" if not symbols else None),
            )
        if size < 1:
            raise OptionError(f"--bind {symbol}={size}", "a dimension must be at least 1", got=str(size))
    sizes = {shape[0]: 1 for shape in dims.values() if shape and isinstance(shape[0], str)} | dict(bind)
    if unbound := list(dict.fromkeys(s for s in symbols if s not in sizes)):
        flags, entries = " ".join(f"--bind {s}=…" for s in unbound), ", ".join(f'"{s}": …' for s in unbound)
        raise FileError(
            file,
            "every dimension but the first must have a size",
            got=", ".join(f'symbol "{s}"' for s in unbound),
            remedy=f"give {flags}, or in Python bind={{{entries}}}",
        )
    shapes = {name: tuple(sizes[d] if isinstance(d, str) else d for d in shape) for name, shape in dims.items()}
    for name, shape in shapes.items():
        try:
            sized(shape)
        except UnsupportedError as refusal:
            raise FileError(
                file, f'input "{name}" must fit into a memory', got=refusal.need,
                remedy="export the model with other input shapes",
            ) from None  # fmt: skip
    return shapes


def batch_symbols(inputs: Iterable[onnx.ValueInfoProto], bind: Mapping[str, int], file: str) -> dict[str, str]:
    """Returns the symbols of first dimensions that are 1 because nothing binds them, by the inputs' names."""
    first = {i.name: next(iter(_input_dimensions(i, file)), 1) for i in inputs}
    return {name: dim for name, dim in first.items() if isinstance(dim, str) and dim not in bind}


def bound_batch(inputs: Iterable[onnx.ValueInfoProto], bind: Mapping[str, int], file: str) -> int:
    """Returns the number that the symbols of first dimensions are bound to; 1 without one such number."""
    first = [next(iter(_input_dimensions(i, file)), 1) for i in inputs]
    sizes = {bind.get(dim, 1) for dim in first if isinstance(dim, str)}
    return sizes.pop() if len(sizes) == 1 else 1


def _input_dimensions(info: onnx.ValueInfoProto, file: str) -> list[int | str]:
    """Returns the size or the symbol of each dimension of an input."""
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value") or "nothing"
        raise FileError(file, f'input "{info.name}" must be a tensor', got=kind.removesuffix("_type"))
    if not info.type.tensor_type.HasField("shape"):
        raise FileError(
            file, f'input "{info.name}" must have a shape', got="none", remedy="export the model with input shapes"
        )
    return dimensions(info)


def dimensions(info: onnx.ValueInfoProto) -> list[int | str]:
    """Returns the size or the symbol of each dimension of a tensor; none if it is no tensor, or has no shape."""
    dims = info.type.tensor_type.shape.dim
    return [
        d.dim_value if d.HasField("dim_value") else d.dim_param or f"{info.name}.{axis}" for axis, d in enumerate(dims)
    ]
