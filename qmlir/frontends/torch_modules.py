"""Reads a network of PyTorch: its own exporter writes ONNX, which is read like any file.

PyTorch is never imported by qmlir before a module of PyTorch is given, so whoever gives none need not have it.
"""

import sys
import tempfile
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from typing_extensions import TypeIs

from qmlir.errors import OptionError
from qmlir.running.files import path_of

INLINE_BYTES = 1 << 30
"""Networks with larger weights are exported with a file of weights beside them: an ONNX file ends at 2 GiB."""


class TorchModule(Protocol):
    """A `torch.nn.Module`, as far as this file needs it; PyTorch itself is not imported for a type."""

    training: bool

    def eval(self) -> Any:
        """Sets the module and all modules in it to inference."""
        ...

    def modules(self) -> "Iterator[TorchModule]":
        """Yields the module and all modules in it."""
        ...

    def parameters(self) -> Iterator[Any]:
        """Yields the weights that training changes."""
        ...

    def buffers(self) -> Iterator[Any]:
        """Yields the other weights."""
        ...


def is_torch_module(given: object) -> TypeIs[TorchModule]:
    """Whether an object is a `torch.nn.Module`; PyTorch is asked only if the program has imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)


@contextmanager
def file_of(given: object, example: object) -> Generator[Path]:
    """Yields the file of a network: the path given, or what PyTorch's exporter writes of a module.

    Raises:
        OptionError: It is neither, an example is given for a path, or the exporter refuses the module.
    """
    if is_torch_module(given):
        with exported(given, example) as file:
            yield file
    else:
        example_for(given, None, example)
        yield path_of(given)


def example_for(module: object, samples: object, example: object) -> object:
    """Returns what a module of PyTorch is called with: the example given, or the first of the samples.

    Raises:
        OptionError: An example is given for something else.
    """
    if is_torch_module(module):
        return _first_of(samples) if example is None else example
    if example is not None:
        need = "is for a module of PyTorch: another network says what it takes"
        raise OptionError("example", need, remedy="leave it out")
    return None


def refuse_torch_module(given: object) -> None:
    """Raises `OptionError` for a module of PyTorch, where a function takes one of qmlir."""
    if is_torch_module(given):
        remedy = "load it first: qmlir.load(module, example=…)"
        raise OptionError("network", "must be a module of qmlir or a path", got="a module of PyTorch", remedy=remedy)


@contextmanager
def exported(module: TorchModule, example: object) -> Generator[Path]:
    """Yields the .onnx file of a module of PyTorch, which lasts as long as the context.

    The network is exported for inference and for the shapes of the example; the module keeps its mode.

    Args:
        module: A `torch.nn.Module`.
        example: What the module is called with: an array or a tensor, a sequence of them, or a mapping from the names
            of the parameters of its `forward`.

    Raises:
        OptionError: The example is none, or the exporter refuses the module.
    """
    arguments, named = _example(example)
    called = type(module).__name__
    with tempfile.TemporaryDirectory(prefix="qmlir-") as folder:
        path = Path(folder) / f"{called}.onnx"
        training = [each for each in module.modules() if each.training]
        module.eval()
        try:
            _export(module, arguments, named, path)
        except Exception as error:  # whatever the module or the exporter raises; there is no common type
            raise OptionError(
                called, "must be a module that torch.onnx.export exports for this example", got=_first_line(error),
                remedy="change the module or the example, or write an .onnx file by torch.onnx.export yourself",
            ) from None  # fmt: skip
        finally:
            for each in training:
                each.training = True
        yield path


def _first_of(samples: object) -> object:
    """Returns the first of a list of samples; None of none, and of samples that can be read only once."""
    if isinstance(samples, np.ndarray) or (isinstance(samples, Sequence) and not isinstance(samples, str)):
        several = cast("Sequence[object]", samples)
        return several[0] if len(several) else None
    return None


def _export(module: TorchModule, arguments: tuple[Any, ...], named: dict[str, Any], path: Path) -> None:
    torch: Any = import_module("torch")  # which the program has imported, as it gives a module
    weights = sum(t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers()))
    said = StringIO()
    with warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, arguments, path, kwargs=named or None, dynamo=True, verbose=False,
            external_data=weights > INLINE_BYTES,
        )  # fmt: skip


def _example(example: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the positional arguments and those by name, as tensors of PyTorch."""
    if example is None:
        raise OptionError(
            "example", "must be what the module of PyTorch is called with", got="none",
            remedy="give an array, a tuple of arrays, or a dict of them by parameter: qmlir.load(module, example=x)",
        )  # fmt: skip
    if isinstance(example, Mapping):
        entries = cast("Mapping[object, object]", example)
        return (), {str(name): _tensor(value) for name, value in entries.items()}
    if isinstance(example, Sequence) and not isinstance(example, str | bytes):
        return tuple(_tensor(value) for value in cast("Sequence[object]", example)), {}
    return (_tensor(example),), {}


def _tensor(value: object) -> Any:
    torch: Any = import_module("torch")
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return torch.from_numpy(np.array(cast(object, value)))
    raise OptionError("example", "must hold arrays or tensors", got=f"{value!r} of type {type(value).__name__}")


def _first_line(error: Exception) -> str:
    """Returns the kind of an error and the first line of its text, which may be a page long."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
