"""What users give to the functions of `compiler.py`, in the form that these work on, or a typed error.

A network may come as a module or as a path, and so may a profile and a policy. What is neither is refused with what was
needed and what was given.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from qmlir.errors import OptionError
from qmlir.policy import Policy
from qmlir.profiles import Profile

Array = npt.NDArray[Any]

Network = ModuleOp | str | Path
"""What functions here take for a network: a module, or the path of a file that `load` reads."""


def samples_given(given: object) -> Iterable[Array | Mapping[str, Array]]:
    """Samples as they are given.

    Raises:
        OptionError: They are no collection of arrays.
    """
    if isinstance(given, str | Path | Mapping) or not isinstance(given, Iterable):
        need = "must be arrays of the only input, or dicts of arrays by input name, one for each sample"
        got, remedy = f"something of type {type(cast(object, given)).__name__}", "give a list of them"
        raise OptionError("samples", need, got=got, remedy=remedy)
    return cast(Iterable[Array | Mapping[str, Array]], given)


def profile_given(given: object) -> tuple[Profile, str]:
    """A profile, or that of a file, and what to call it in errors."""
    if isinstance(given, str | Path):
        return Profile.load(given), str(given)
    if not isinstance(given, Profile):
        need = "must be what qmlir.profile returns, or the path of a profile"
        raise OptionError("profile", need, got=f"{given!r} of type {type(given).__name__}")
    return given, "profile"


def policy_given(given: object) -> Policy:
    """A policy, or what a file or plain data say of one."""
    match given:
        case Policy():
            return given
        case None:
            return Policy()
        case str() | Path():
            return Policy.load(given)
        case Mapping():
            return Policy.of(cast(Mapping[str, Any], given))
        case _:
            need = "must be a Policy, rules as plain data, or the path of a file of them"
            raise OptionError("policy", need, got=f"{given!r} of type {type(given).__name__}")
