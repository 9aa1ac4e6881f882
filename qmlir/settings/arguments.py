"""Checks and converts the arguments that users give to the functions of `compiler.py`.

A network may be given as a module or as a path; so may a profile and a policy. Every function here returns the argument
in the form that the compiler works on, or raises a typed error that says what is needed and what was given. Numbers,
texts and mappings are checked in the same way.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.errors import OptionError, near_misses
from qmlir.ir.signature import MEMORY
from qmlir.numerics import Array

if TYPE_CHECKING:
    from qmlir.profiles.profile import Profile
    from qmlir.settings.policy import Policy

T = TypeVar("T")


Network = ModuleOp | str | Path
"""A network as functions accept it: a module, or the path of a file that `load` reads."""


def samples_given(given: object) -> Iterable[Any]:
    """Returns the samples unchanged if they are a collection of arrays.

    Raises:
        OptionError: They are not iterable, or are text, a path or a single mapping.
    """
    if isinstance(given, str | Path | Mapping) or not isinstance(given, Iterable):
        need = "must be arrays of the only input, or dicts of arrays by input name, one for each sample"
        got, remedy = f"something of type {type(cast(object, given)).__name__}", "give a list of them"
        raise OptionError("samples", need, got=got, remedy=remedy)
    return cast(Iterable[Any], given)


def profile_given(given: object) -> "tuple[Profile, str]":
    """Returns a profile and its name for errors, from a `Profile` or from the path of a profile."""
    from qmlir.profiles.profile import Profile

    if isinstance(given, str | Path):
        return Profile.load(given), str(given)
    if not isinstance(given, Profile):
        need = "must be what qmlir.profile returns, or the path of a profile"
        raise OptionError("profile", need, got=_described(given))
    return given, "profile"


def policy_given(given: object) -> "Policy":
    """Returns a policy from a `Policy`, from plain data or from the path of a file; None is the empty policy."""
    from qmlir.settings.policy import Policy

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
            raise OptionError("policy", need, got=_described(given))


def options_given(function: str, given: Mapping[str, object], known: Iterable[str]) -> dict[str, object]:
    """Returns the options that are not None.

    Raises:
        OptionError: The function has no option of that name; the error proposes similar names.
    """
    names = list(known)
    for name in given:
        if name not in names:
            raise OptionError(f"{function} {name}", "there is no such option", remedy=near_misses(name, names))
    return {name: value for name, value in given.items() if value is not None}


def integer_given(option: str, given: object) -> int:
    """Returns an integer, from Python's or numpy's integers; truth values are refused.

    Raises:
        OptionError: The argument is something else.
    """
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise OptionError(option, "must be an integer", got=_described(given))
    return int(cast(int, given))


def count_given(option: str, given: object) -> int:
    """Returns a positive integer, from Python's or numpy's integers.

    Raises:
        OptionError: The argument is something else.
    """
    if (number := integer_given(option, given)) < 1:
        raise OptionError(option, "must be a positive number", got=str(number))
    return number


def text_given(option: str, given: object) -> str:
    """Returns the argument if it is text.

    Raises:
        OptionError: The argument is something else.
    """
    return _typed(option, given, str, "must be text")


def choice_given(option: str, given: object, known: Sequence[str]) -> str:
    """Returns the argument if it is one of the known texts.

    Raises:
        OptionError: The argument is something else; the error proposes similar texts.
    """
    if (text := text_given(option, given)) not in known:
        raise OptionError(option, f"must be one of {', '.join(known)}", got=text, remedy=near_misses(text, known))
    return text


def flag_given(option: str, given: object) -> bool:
    """Returns the argument if it is a truth value.

    Raises:
        OptionError: The argument is something else.
    """
    return _typed(option, given, bool, "must be True or False")


def sizes_given(option: str, given: object) -> Mapping[str, int]:
    """Returns sizes by the names of symbolic dimensions; None is an empty mapping.

    Raises:
        OptionError: The argument is not a mapping from names to integers.
    """
    entries = _by_name(option, given, 'must be sizes by symbol, such as {"N": 1}')
    return {name: integer_given(f"{option} {name}", size) for name, size in entries.items()}


def name_pairs_given(option: str, given: object) -> Mapping[str, str]:
    """Returns names by name; None is an empty mapping.

    Raises:
        OptionError: The argument is not a mapping from names to names.
    """
    entries = _by_name(option, given, 'must be outputs by input, such as {"past": "present"}')
    return {name: text_given(f"{option} {name}", other) for name, other in entries.items()}


def shapes_given(option: str, given: object) -> Mapping[str, str]:
    """Returns the types of inputs by name, as text; None is an empty mapping.

    Raises:
        OptionError: The argument is not a mapping from names to texts or to sequences of integers.
    """
    need = 'must be shapes by input name, such as {"data": (1, 3, 224, 224)}'
    found: dict[str, str] = {}
    for name, shape in _by_name(option, given, need).items():
        if isinstance(shape, str):
            found[name] = shape
            continue
        if not isinstance(shape, Sequence):
            raise OptionError(f"{option} {name}", "must be text or a sequence of integers", got=_described(shape))
        sizes = [integer_given(f"{option} {name}", size) for size in cast(Sequence[object], shape)]
        found[name] = "".join(f"{size}x" for size in sizes) + "f32"
    return found


def names_given(option: str, given: object) -> tuple[str, ...] | None:
    """Returns names, from one name or a sequence of names; None stays None.

    Raises:
        OptionError: The argument is something else.
    """
    if given is None or isinstance(given, str):
        return given if given is None else (given,)
    if not isinstance(given, Sequence):
        raise OptionError(option, "must be a name or a sequence of names", got=_described(given))
    return tuple(text_given(option, name) for name in cast(Sequence[object], given))


def arrays_given(option: str, given: object) -> Mapping[str, Array]:
    """Returns arrays by the names of inputs; None is an empty mapping.

    Raises:
        OptionError: The argument is not a mapping from names to numpy arrays.
    """
    need = "must be numpy arrays by input name"
    entries = _by_name(option, given, need)
    for name, array in entries.items():
        if not isinstance(array, np.ndarray | np.generic):
            raise OptionError(f"{option} {name}", "must be a numpy array", got=_described(array))
    return {name: np.asarray(array) for name, array in entries.items()}


def _by_name(option: str, given: object, need: str) -> dict[str, object]:
    if given is None:
        return {}
    entries = cast(Mapping[object, object], _typed(option, given, Mapping, need))
    return {text_given(f"a name in {option}", name): value for name, value in entries.items()}


def _typed(option: str, given: object, type: type[T], need: str) -> T:
    if not isinstance(given, type):
        raise OptionError(option, need, got=_described(given))
    return given


def _described(given: object) -> str:
    return f"{given!r} of type {type(given).__name__}"


def memory_given(memory: object, threads: int) -> str:
    """Returns what code is made for: "fast" or "small".

    Raises:
        OptionError: It is neither, or memory is to be small for several threads, each of which takes its own.
    """
    chosen = choice_given("memory", memory, MEMORY)
    if chosen == "small" and threads > 1:
        raise OptionError("memory", "must be fast for several threads", got=f"small, {threads} threads")
    return chosen


def batch_given(batch: object, target: object) -> int:
    """Returns the most samples of a call.

    Raises:
        OptionError: It is not a positive integer, or a device is named, which computes one sample at a time.
    """
    most = integer_given("batch", batch)
    if most < 1:
        raise OptionError("batch", "must be a positive number of samples", got=str(most))
    if target is not None:
        remedy = "leave the batch out; `run_all` of the result takes a list of samples"
        raise OptionError("batch", "is for code of this processor", got="a target", remedy=remedy)
    return most
