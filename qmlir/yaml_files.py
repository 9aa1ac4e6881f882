"""YAML files that users write and edit: read with the line and the column of whatever is wrong.

document = read_yaml(path, "a policy", remedy="…")
document.data                        # plain values
document.place("rules", 2, "match")  # net.yaml:7:12
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from qmlir.bounded_data import check_data
from qmlir.errors import FileError

# The C parser is ten times faster where libyaml is there; both read and write the same text.
Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MERGED = 100_000
"""The most fields that `<<` may bring into a mapping: a few lines of it can multiply them without end."""


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
    """What a file holds.

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
        """The first document's fields; none where it is no mapping."""
        data = self.data
        return cast(dict[str, Any], data) if isinstance(data, dict) else {}

    def place(self, *keys: Key, name: bool = False) -> str:
        """Where something stands in the first document, as `file:line:column`.

        Args:
            keys: The keys and indices that lead to it; as far as they lead somewhere.
            name: Whether the last key itself is meant, not what it stands for.
        """
        node = self._root
        for i, key in enumerate(keys):
            found = _child(node, key, 0 if name and i == len(keys) - 1 else 1)
            if found is None:
                break
            node = found
        return f"{self.path}{_place(node.start_mark)}" if node is not None else str(self.path)

    def repeated_key(self) -> tuple[str, str] | None:
        """(place, key) of the first key that a mapping of the first document has twice: YAML would take the last."""
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
        """The first document as nodes that know where they stand; PyYAML's have no types."""
        compose_all: Any = vars(yaml)["compose_all"]
        return next(compose_all(self.text, Loader), None)


def read_yaml(path: Path, what: str, *, remedy: str) -> YamlFile:
    """Reads a file of YAML.

    Args:
        path: The file.
        what: What it must be, with its article: "a profile".
        remedy: What to do where it is not.

    Raises:
        FileError: It cannot be read, or is no YAML; then with line and column.
    """
    try:
        text = path.read_text(encoding="utf-8")
        documents: list[Any] = list(yaml.load_all(text, cast(Any, Loader)))
        check_data(documents)
        return YamlFile(path, text, documents)
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise FileError(path, f"must be a readable {what.partition(' ')[2]}", got=got, remedy=remedy) from None
    except UnicodeDecodeError:
        raise FileError(path, f"must be {what} in YAML", got="text that is not UTF-8", remedy=remedy) from None
    except yaml.MarkedYAMLError as error:
        problem = " ".join(part for part in (error.problem, error.context) if part)
        place = f"{path}{_place(error.problem_mark)}"
        raise FileError(place, f"must be {what} in YAML", got=f"a mistake ({problem})", remedy=remedy) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        # A ValueError is of a scalar that looks like a date and is none, or of data out of bounds.
        got = f"a mistake ({' '.join(str(error).split())})"
        raise FileError(path, f"must be {what} in YAML", got=got, remedy=remedy) from None


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def number_of(value: object) -> object:
    """The number that a value spells, such as `6e2` and `-.5`, which YAML 1.1 takes for text; else the value itself.

    The loader itself leaves such text alone: it may be the name of a tensor.
    """
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _place(mark: Any) -> str:
    return f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""


def _child(node: Any, key: Key, part: int) -> Any:
    """The element of a sequence; of a mapping the key (part 0) or its value (part 1)."""
    match node:
        case MappingNode():
            return next((pair[part] for pair in node.value if pair[0].value == str(key)), None)
        case SequenceNode() if isinstance(key, int) and 0 <= key < len(node.value):
            return node.value[key]
        case _:
            return None


def _nodes(node: Any, seen: set[int]) -> Iterator[Any]:
    """All nodes under one, each once though aliases repeat it."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    yield node
    children = node.value if isinstance(node, MappingNode | SequenceNode) else ()
    for child in children:
        yield from (found for each in _parts(child) for found in _nodes(each, seen))


def _parts(child: Any) -> tuple[Any, ...]:
    """An element of a sequence, or a mapping's key and value."""
    return cast(tuple[Any, ...], child) if isinstance(child, tuple) else (child,)
