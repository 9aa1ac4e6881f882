"""Inputs of a model that are sequences of tensors or optional, as arguments that are tensors.

A function of the IR takes tensors. How many tensors a sequence has is no part of its type, so a user says it:

    bind={"frames": 3}    the sequence `frames` becomes the arguments `frames.0`, `frames.1` and `frames.2`
    bind={"mask": 0}      the optional input `mask` is left out; else it is there

A symbol N in the shape of a sequence's tensors may be another size in each; that of the first is called `frames.0.N`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from qmlir.errors import FileError, OptionError
from qmlir.frontends.function import Value
from qmlir.frontends.onnx.sequences import Absent, Listed

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
