"""Plugins: passes, dialects, calibrations, rounding methods and encoders that packages, or a program, add to qmlir.

A package names each of them as an entry point in its pyproject.toml; `docs/extending.md` shows one of every group:

    [project.entry-points."qmlir.calibrations"]
    clip-tails = "qmlir_example.calibration:clip_tails"

A program calls `qmlir.register_calibration`, `qmlir.register_rounding` or `qmlir.register_encoder`. Both ways lead to
the same names.

The entry points are read from the metadata of the installed packages, once a process. The code of a package is imported
when its name is used, so that a package that cannot be imported breaks nothing else. A name that qmlir has itself, or
that two packages offer, is an error where it is used.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from qmlir.errors import QmlirError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PASSES = "qmlir.passes"
DIALECTS = "qmlir.dialects"
CALIBRATIONS = "qmlir.calibrations"
ROUNDINGS = "qmlir.roundings"
ENCODERS = "qmlir.encoders"

OWN = {
    ENCODERS: {
        "gemmini": "qmlir.backends.hardware.gemmini.encoder:Gemmini",
        "nvdla": "qmlir.backends.hardware.nvdla.encoder:NVDLAEncoder",
        "vta": "qmlir.backends.hardware.vta.encoder:Vta",
    },
}
"""What qmlir offers itself: group → name → object, in the form of an entry point."""

NOUNS = {
    PASSES: "pass",
    DIALECTS: "dialect",
    CALIBRATIONS: "calibration",
    ROUNDINGS: "rounding",
    ENCODERS: "encoder",
}
"""The groups of entry points, and what an entry of each group is called."""

PROGRAM, QMLIR = "this program", "qmlir"
"""The origins of plugins that Python code has registered, and of those that are qmlir's own."""

_NUMBERED = re.compile(r"([A-Za-z_]+)-(\d+(?:\.\d+)?)")
"""Values that a number follows."""

_NAME = re.compile(r"[A-Za-z][\w.-]*")
"""Names that command lines, policies and MLIR text can spell without quotes."""


class PluginError(QmlirError):
    """Raised for a plugin that cannot be used: it does not import, its name is taken, or its result is wrong."""


@dataclass(frozen=True)
class Plugin:
    """An object that a package, or the running program, adds to qmlir under a name.

    group       a key of `NOUNS`
    name        the name that users write
    origin      the package and its version, `qmlir-example 0.1.0`; or `this program`
    entry       the entry point; None for an object that the program has registered
    registered  the object that the program has registered
    """

    group: str
    name: str
    origin: str
    entry: "EntryPoint | None" = None
    registered: Any = None

    @property
    def kind(self) -> str:
        """What the plugin is: a pass, a dialect, a calibration, a rounding or an encoder."""
        return NOUNS[self.group]

    @property
    def called(self) -> str:
        """The plugin's name and origin: `clip-tails of qmlir-example 0.1.0`."""
        return f"{self.name} of {self.origin}"

    @property
    def package(self) -> str:
        """The top-level package, or module, that holds the plugin's code; empty for a registered object."""
        return "" if self.entry is None else self.entry.module.partition(".")[0]

    def load(self) -> Any:
        """Returns the plugin's object, and imports its package if that has not happened yet.

        Raises:
            PluginError: The package cannot be imported, or does not have the object.
        """
        if self.entry is None:
            return self.registered
        try:
            return self.entry.load()
        except Exception as error:  # a package may raise anything while it is imported
            got = " ".join(f"{type(error).__name__}: {error}".split())
            need = f"its entry point {self.name} of {self.group}, {self.entry.value}, must be importable"
            raise PluginError(need, where=self.origin, got=got, remedy="repair or uninstall the package") from error

    def fault(self, need: str, *, got: str | None = None, where: str | None = None) -> PluginError:
        """Returns an error about what the plugin did: `calibration clip-tails of qmlir-example 0.1.0 must …`."""
        remedy = "repair it, or choose another" if self.entry is None else "report this to the package's authors"
        return PluginError(f"{self.kind} {self.called} {need}", where=where, got=got, remedy=remedy)


# ---------------------------------------------------------------------------------------------------------------
# Which plugins there are


_registered: dict[tuple[str, str], Plugin] = {}


@cache
def installed() -> tuple[Plugin, ...]:
    """Returns the plugins of the installed packages and qmlir's own, ordered by group and name; none is imported."""
    from importlib.metadata import EntryPoint, entry_points

    found = {Plugin(g, entry.name, _origin(entry), entry) for g in NOUNS for entry in entry_points(group=g)}
    own = [EntryPoint(name, value, group) for group, names in OWN.items() for name, value in names.items()]
    found |= {Plugin(entry.group, entry.name, QMLIR, entry) for entry in own}
    return tuple(sorted(found, key=lambda each: (list(NOUNS).index(each.group), each.name, each.origin)))


def _origin(entry: "EntryPoint") -> str:
    return "unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def known_plugins() -> list[Plugin]:
    """Returns the plugins of the installed packages, of the program, and qmlir's own; no package is imported.

    >>> import qmlir
    >>> whole = qmlir.register_calibration("whole-range", lambda search: (search.low, search.high))
    >>> [each.called for each in known_plugins() if each.name == "whole-range"]
    ['whole-range of this program']
    """
    return [*installed(), *_registered.values()]


def plugins_in(group: str) -> dict[str, list[Plugin]]:
    """Returns the plugins of a group by name; a name with several plugins cannot be used."""
    found: dict[str, list[Plugin]] = {}
    for each in known_plugins():
        if each.group == group:
            found.setdefault(each.name, []).append(each)
    return found


def plugin(group: str, name: str, built_in: Iterable[str] = ()) -> Plugin | None:
    """Returns the plugin of a name; None if there is none.

    Args:
        group: A key of `NOUNS`.
        name: The name that a user has written.
        built_in: The names that qmlir itself has in the group.

    Raises:
        PluginError: The plugin's name is also that of another plugin, or built in.
    """
    found = plugins_in(group).get(name, [])
    if found and name in built_in:
        raise _taken(found[0], "qmlir itself has one of that name")
    if len(found) > 1:
        raise _taken(found[0], f"{' and '.join(each.origin for each in found[1:])} offers one of that name, too")
    return found[0] if found else None


def _taken(first: Plugin, why: str) -> PluginError:
    need = f"must not offer the {first.kind} {first.name}: {why}"
    return PluginError(need, where=first.origin, remedy="rename or uninstall one of the two")


def register(group: str, name: str, value: Any, built_in: Iterable[str]) -> None:
    """Adds an object of the running program; one that the program has registered before is replaced.

    Raises:
        PluginError: The name is not a name, or is taken by qmlir or by an installed package.
    """
    noun = NOUNS[group]
    if not isinstance(name, str) or not _NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        need = f"the name of a {noun} must be letters, digits, `-` and `_` that begin with a letter"
        raise PluginError(need, got=repr(name))
    if not callable(value):
        raise PluginError(f"{noun} {name} must be a function", got=f"{value!r} of type {type(value).__name__}")
    if name in built_in:
        raise PluginError(f"{noun} {name} must have a name of its own", got="one that qmlir has", remedy="rename it")
    if taken := [each for each in installed() if (each.group, each.name) == (group, name)]:
        need = f"{noun} {name} must have a name of its own"
        raise PluginError(need, got=f"one that {taken[0].origin} has", remedy="rename it")
    _registered[group, name] = Plugin(group, name, PROGRAM, registered=value)


def plugin_lines() -> list[str]:
    """Returns a line for each origin of plugins: `qmlir-example 0.1.0: pass count-ops, dialect example`."""
    by_origin: dict[str, list[str]] = {}
    for each in (each for each in known_plugins() if each.origin != QMLIR):
        by_origin.setdefault(each.origin, []).append(f"{each.kind} {each.name}")
    return [f"{origin}: {', '.join(held)}" for origin, held in by_origin.items()]


# ---------------------------------------------------------------------------------------------------------------
# Options whose values plugins extend


@dataclass(frozen=True)
class Extensible:
    """Marks an option to whose values plugins add: `Annotated[Literal["auto", "nearest"], Extensible(ROUNDINGS)]`.

    group     the group of entry points that adds values
    numbered  values that a number may follow, behind a hyphen: `percentile-99.9`
    """

    group: str
    numbered: tuple[str, ...] = ()


def choices(hint: Any) -> tuple[Any, ...] | None:
    """Returns the values that an option of this annotation may have; None if it does not list any."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) is Union and all(get_origin(member) is Literal for member in get_args(hint)):
        return tuple(value for member in get_args(hint) for value in get_args(member))
    if (mark := _extended(hint)) is not None:
        listed = get_args(get_args(hint)[0])
        return (*listed, *(name for name in plugins_in(mark.group) if name not in listed))
    return None


def admits(hint: Any, value: object) -> bool:
    """Whether an option of this annotation may have a value, if the annotation lists some.

    Raises:
        PluginError: Several plugins have the name, or a plugin and qmlir itself.
    """
    if (mark := _extended(hint)) is not None and isinstance(value, str):
        listed = get_args(get_args(hint)[0])
        return plugin(mark.group, value, listed) is not None or value in listed or is_numbered(hint, value)
    return value in (choices(hint) or ())


def numbered(hint: Any) -> tuple[str, ...]:
    """Returns the values of an option that a number may follow."""
    mark = _extended(hint)
    return () if mark is None else mark.numbered


def with_number(name: str) -> str:
    """Returns how lists of values show one that a number follows: `percentile-N`."""
    return f"{name}-N"


def is_numbered(hint: Any, value: str) -> bool:
    """Whether a value is one that a number follows, such as `percentile-99.9`, and an option may have such values."""
    name, number = without_number(value)
    return number is not None and name in numbered(hint)


def without_number(value: str) -> tuple[str, float | None]:
    """Divides a value such as `percentile-99.9` into its name and its number; None if it has no number."""
    found = _NUMBERED.fullmatch(value)
    return (value, None) if found is None else (found[1], float(found[2]))


def _extended(hint: Any) -> Extensible | None:
    """Returns what extends the values of an option; None if nothing does."""
    if get_origin(hint) is not Annotated:
        return None
    return next((mark for mark in get_args(hint)[1:] if isinstance(mark, Extensible)), None)
