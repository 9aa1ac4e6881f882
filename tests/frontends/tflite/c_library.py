"""Functions of the C library that LiteRT calls, so that qmlir can be held to LiteRT bit for bit with any library."""

import ctypes
import ctypes.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.lowering.nn_to_qint import functions

Floats = npt.NDArray[np.float32]

FUNCTIONS = {"erfc_float32": "erfcf", "tanh_float32": "tanhf"}
"""qmlir's correctly rounded ones → the library's, which a bit may be off."""


@cache
def of_the_c_library(name: str) -> Callable[[Floats], Floats]:
    """A function of the C library on arrays; to find the library, Python runs commands, so that is done once."""
    found = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name)
    found.restype, found.argtypes = ctypes.c_float, [ctypes.c_float]

    def function(x: Floats) -> Floats:
        return np.array([found(float(v)) for v in x.flat], np.float32).reshape(x.shape)

    return function


@contextmanager
def functions_of_the_c_library() -> Iterator[None]:
    """qmlir's tables as LiteRT fills them here: with functions of the library that is installed."""
    with pytest.MonkeyPatch.context() as patch:
        for ours, theirs in FUNCTIONS.items():
            patch.setattr(functions, ours, of_the_c_library(theirs))
        yield
