"""Binds the symbolic dimensions of the model's inputs to numbers, so that all shapes in the IR are static.

An unbound symbol that is the first dimension of some input is the batch and becomes 1. Any other unbound symbol is an
error that names the symbol. A dimension with neither a size nor a symbol gets the symbol `<input>.<axis>`.
"""

from collections.abc import Iterable, Mapping

import onnx

from qmlir.errors import FileError, OptionError
from qmlir.errors.near_misses import near_misses
from qmlir.frontends.values import Refusal, sized
from qmlir.ir.interfaces import Shape


def bind_shapes(inputs: Iterable[onnx.ValueInfoProto], bind: Mapping[str, int], file: str) -> dict[str, Shape]:
    """Returns the static shape of each input, by name.

    Args:
        inputs: The graph's inputs that are arguments.
        bind: Sizes of symbolic dimensions.
        file: The model's file, for errors.

    Raises:
        OptionError: `bind` has a symbol that the model lacks, or a size below 1.
        FileError: An input is not a tensor, lacks a shape, has a negative size or a symbol without a value, or is too
            large.
    """
    dims = {i.name: _dims(i, file) for i in inputs}
    symbols = [d for shape in dims.values() for d in shape if isinstance(d, str)]
    for symbol, size in bind.items():
        if symbol not in symbols:
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
        except Refusal as refusal:
            raise FileError(
                file, f'input "{name}" must fit into a memory', got=refusal.reason,
                remedy="export the model with other input shapes",
            ) from None  # fmt: skip
    return shapes


def _dims(info: onnx.ValueInfoProto, file: str) -> list[int | str]:
    """Returns the size or the symbol of each dimension of an input."""
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value") or "nothing"
        raise FileError(file, f'input "{info.name}" must be a tensor', got=kind.removesuffix("_type"))
    if not info.type.tensor_type.HasField("shape"):
        raise FileError(
            file, f'input "{info.name}" must have a shape', got="none", remedy="export the model with input shapes"
        )
    dims: list[int | str] = []
    for axis, dim in enumerate(info.type.tensor_type.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value < 0:
            raise FileError(
                file, f'dimensions of input "{info.name}" must be at least 0', got=str(dim.dim_value),
                remedy="export the model with other input shapes",
            )  # fmt: skip
        dims.append(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{info.name}.{axis}")
    return dims
