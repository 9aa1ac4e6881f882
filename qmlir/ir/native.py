"""Functions in C that compute operators of a program (own_operators.py).

Every such function has one prototype, whatever the operator:

    void NAME(const void *const *inputs, void *const *outputs, const int64_t *const *shapes, const int64_t *ranks,
              const double *attributes);

    inputs, outputs   the first element of each tensor; elements lie one after another in row-major order
    shapes, ranks     the sizes of each tensor and how many there are, first of the inputs, then of the outputs
    attributes        the attributes that the registration names, in that order

The memory belongs to the caller and is valid during the call. The function writes every element of the outputs, has no
way to fail, and may be called by several threads at once.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from qmlir.errors import OptionError, QmlirError
from qmlir.numerics import Array

PROTOTYPE = (
    "void {}(const void *const *inputs, void *const *outputs, const int64_t *const *shapes, const int64_t *ranks, "
    "const double *attributes);"
)
"""The prototype in C, with a place for the function's name."""

Spec = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and the element type of a tensor."""


def is_identifier(name: str) -> bool:
    """Whether a function in C may have this name."""
    return re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None


@dataclass(frozen=True)
class NativeFunction:
    """A function of a shared library.

    symbol    its name
    library   the library, which stays loaded as long as this object lives
    address   its address
    defaults  the attributes that it takes, in order, each with the number that counts if a node lacks it
    """

    symbol: str
    library: Any
    address: int
    defaults: Mapping[str, float]

    @staticmethod
    def of(library: Any, symbol: Any, attributes: Any) -> "NativeFunction":
        """Finds a function.

        Args:
            library: The path of a shared library, or one that `ctypes` has loaded.
            symbol: The function's name.
            attributes: The numbers that the function takes by default, by the names of attributes; None for none.

        Raises:
            OptionError: The library cannot be loaded or lacks the function, or an argument is of another type.
        """
        import ctypes
        from os import PathLike

        if not isinstance(symbol, str) or not is_identifier(symbol):
            raise OptionError("register_op symbol", "must be the name of a function in C", got=repr(symbol))
        if isinstance(library, str | PathLike):
            try:
                library = ctypes.CDLL(str(cast("str | PathLike[str]", library)))
            except OSError as error:
                raise OptionError("register_op library", "must be a shared library", got=str(error)) from None
        if not isinstance(library, ctypes.CDLL):
            raise OptionError("register_op library", "must be the path of a shared library", got=repr(library))
        try:
            address = ctypes.cast(library[symbol], ctypes.c_void_p).value or 0
        except AttributeError:
            raise OptionError("register_op symbol", f"must be a function of {library._name}", got=symbol) from None
        try:
            defaults = {str(name): float(number) for name, number in dict(attributes or {}).items()}
        except (TypeError, ValueError):
            raise OptionError("register_op attributes", "must be numbers by name", got=repr(attributes)) from None
        return NativeFunction(symbol, library, address, defaults)

    def numbers(self, attributes: Mapping[str, Any], called: str) -> list[float]:
        """Returns the numbers that the function takes for a node's attributes; `called` names the operator in errors.

        Raises:
            QmlirError: An attribute is no number, or none that the function takes.
        """
        for name, value in attributes.items():
            if name not in self.defaults or not isinstance(value, int | float):
                need = f"its attributes must be numbers, of {', '.join(self.defaults) or 'none'}"
                raise QmlirError(need, where=called, got=f"{name} = {value!r}")
        return [float(attributes.get(name, number)) for name, number in self.defaults.items()]

    def __call__(self, inputs: Sequence[Array], numbers: Sequence[float], results: Sequence[Spec]) -> tuple[Array, ...]:
        """Calls the function, and returns its outputs."""
        import ctypes

        given = [np.ascontiguousarray(x) for x in inputs]
        made = [np.zeros(shape, dtype) for shape, dtype in results]
        shapes = [np.array(x.shape, np.int64) for x in (*given, *made)]
        ranks = np.array([len(s) for s in shapes], np.int64)
        values = np.array(numbers, np.float64)

        def pointers(arrays: Sequence[Array]) -> Any:
            return (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))

        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
        prototype(self.address)(
            pointers(given), pointers(made), pointers(shapes), ranks.ctypes.data, values.ctypes.data
        )
        return tuple(made)
