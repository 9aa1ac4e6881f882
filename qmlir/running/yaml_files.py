"""Reads YAML files that users write and edit: within bounds, and with the line and the column of whatever is wrong."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from qmlir.errors import FileError

# ---------------------------------------------------------------------------------------------------------------
# Bounds the size of data read from YAML, TOML or JSON; qmlir's own files stay far below, hostile files do not.


NESTING = 64
"""The most levels of nested lists and mappings."""

DIGITS = 1000
"""The most digits of an integer; Python refuses to print an integer of more than 4,300."""

VALUES = 50_000_000
"""The most values in a file; values that a YAML alias repeats count each time."""


def check_data(value: object) -> None:
    """Checks that plain data stay within the bounds of this module.

    Raises:
        ValueError: The data are nested too deep, contain themselves, hold too long a number, or have too many values.
    """
    _size(value, 0, {})


def _size(value: object, depth: int, known: dict[int, int]) -> int:
    """Counts the values in a value; `known` caches containers' counts by id, 0 while a container is being counted."""
    if isinstance(value, int) and value.bit_length() > 3 * DIGITS:
        raise ValueError(f"a number of more than {DIGITS} digits")
    if not isinstance(value, dict | list | tuple | set):
        return 1
    size = known.get(id(cast(object, value)))
    if size is None:
        if depth == NESTING:
            raise ValueError(f"something nested more than {NESTING} levels deep")
        known[id(cast(object, value))] = 0
        parts: Iterable[Any] = [*value.keys(), *value.values()] if isinstance(value, dict) else cast(Any, value)
        size = known[id(cast(object, value))] = 1 + sum(_size(part, depth + 1, known) for part in parts)
    if size == 0:
        raise ValueError("something that holds itself")
    if size > VALUES:
        raise ValueError("aliases that stand for too much")
    return size


# ---------------------------------------------------------------------------------------------------------------
# YAML files and the places of their values
#
# document = read_yaml(path, "a policy", remedy="…")
# document.data                        # plain values
# document.place("rules", 2, "match")  # net.yaml:7:12


# libyaml's C parser, if installed, is ten times faster; both parsers read and write the same text.
Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MERGED = 100_000
"""The most fields that `<<` may merge into a mapping: a few lines with `<<` can multiply fields without end."""


class Loader(_Safe):
    """PyYAML's loader of plain values, with a bound on merged mappings."""

    def flatten_mapping(self, node: Any) -> None:
        safe: Any = super()
        safe.flatten_mapping(node)
        if len(node.value) > _MERGED:
            raise ValueError("mappings merged into too many fields")


Key = str | int | float


@dataclass(frozen=True)
class YamlFile:
    """The contents of a YAML file.

    path       the file
    text       its text
    documents  the values of its documents; most files have one
    """

    path: Path
    text: str
    documents: list[Any]

    @property
    def data(self) -> Any:
        """The first document's value; None for an empty file."""
        return self.documents[0] if self.documents else None

    @property
    def fields(self) -> dict[str, Any]:
        """The first document's fields; empty if it is not a mapping."""
        data = self.data
        return cast(dict[str, Any], data) if isinstance(data, dict) else {}

    def place(self, *keys: Key, name: bool = False) -> str:
        """Returns the place of a value or key in the first document, as `file:line:column`.

        Args:
            keys: The keys and indices that lead to it; the first one that does not exist ends the search.
            name: Whether to locate the last key itself instead of its value.
        """
        node = self._root
        for i, key in enumerate(keys):
            found = _child(node, key, 0 if name and i == len(keys) - 1 else 1)
            if found is None:
                break
            node = found
        return f"{self.path}{_place(node.start_mark)}" if node is not None else str(self.path)

    def repeated_key(self) -> tuple[str, str] | None:
        """Returns (place, key) of the first key that a mapping has twice; YAML would silently take the last value."""
        for node in _nodes(self._root, set()):
            seen: set[str] = set()
            for key, _ in node.value if isinstance(node, MappingNode) else ():
                if isinstance(key, ScalarNode):
                    if key.value in seen:
                        return f"{self.path}{_place(key.start_mark)}", key.value
                    seen.add(key.value)
        return None

    @cached_property
    def _root(self) -> Any:
        """The first document as PyYAML's nodes, which know their places but have no type annotations."""
        compose_all: Any = vars(yaml)["compose_all"]
        return next(compose_all(self.text, Loader), None)


def read_yaml(path: Path, what: str, *, remedy: str) -> YamlFile:
    """Reads a YAML file.

    Args:
        path: The file.
        what: A name for the expected contents, with its article: "a profile".
        remedy: The remedy to give in errors.

    Raises:
        FileError: The file cannot be read, or is not YAML; then with line and column.
    """
    try:
        text = path.read_text(encoding="utf-8")
        documents: list[Any] = list(yaml.load_all(text, cast(Any, Loader)))
        check_data(documents)
        return YamlFile(path, text, documents)
    except OSError as error:
        raise FileError(path, f"must be a readable {what.partition(' ')[2]}", got=error, remedy=remedy) from None
    except UnicodeDecodeError:
        raise FileError(path, f"must be {what} in YAML", got="text that is not UTF-8", remedy=remedy) from None
    except yaml.MarkedYAMLError as error:
        problem = " ".join(part for part in (error.problem, error.context) if part)
        place = f"{path}{_place(error.problem_mark)}"
        raise FileError(place, f"must be {what} in YAML", got=f"a mistake ({problem})", remedy=remedy) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        # A ValueError means a scalar that looks like a date but is not, or data out of bounds.
        got = f"a mistake ({' '.join(str(error).split())})"
        raise FileError(path, f"must be {what} in YAML", got=got, remedy=remedy) from None


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def number_of(value: object) -> object:
    """Returns the number that text such as `6e2` or `-.5` spells, which YAML 1.1 reads as text; else the value.

    The loader itself leaves such text alone, because it may be the name of a tensor.
    """
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _place(mark: Any) -> str:
    return f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""


def _child(node: Any, key: Key, part: int) -> Any:
    """Returns the element of a sequence; for a mapping, the key (part 0) or its value (part 1)."""
    match node:
        case MappingNode():
            return next((pair[part] for pair in node.value if pair[0].value == str(key)), None)
        case SequenceNode() if isinstance(key, int) and 0 <= key < len(node.value):
            return node.value[key]
        case _:
            return None


def _nodes(node: Any, seen: set[int]) -> Iterator[Any]:
    """Yields all nodes under a node, each once, even if aliases repeat it."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    yield node
    children = node.value if isinstance(node, MappingNode | SequenceNode) else ()
    for child in children:
        yield from (found for each in _parts(child) for found in _nodes(each, seen))


def _parts(child: Any) -> tuple[Any, ...]:
    """Returns an element of a sequence as a tuple, or a mapping's key and value."""
    return cast(tuple[Any, ...], child) if isinstance(child, tuple) else (child,)
