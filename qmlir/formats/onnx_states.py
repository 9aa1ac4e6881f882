"""States in an ONNX file: metadata that say which inputs live from call to call, read by the importer again.

ONNX has no states. The input and the output of a state are like others, and an entry `qmlir.states` of the model's
metadata names each such input, the output that is its value in the next call, and its value before the first call:

    {"past": {"next": "present", "reset": 0.5}}

`reset` is a number, or all numbers of a tensor in row-major order, in the integers or floats that the input takes;
without it, all elements are 0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from qmlir.ir.interfaces import Array, Shape
from qmlir.ir.signature import State

STATES = "qmlir.states"
"""The key of the metadata."""


@dataclass(frozen=True)
class Kept:
    """A state as a file names it.

    next   the output that is the input's value in the next call
    reset  the numbers before the first call: one for all elements, or one for each; none for 0
    """

    next: str
    reset: Sequence[Any] = ()

    def array(self, shape: Shape, dtype: np.dtype[Any]) -> Array | None:
        """Returns the value before the first call as one element or an array of the shape; None for 0.

        Raises:
            ValueError: There are as many numbers as neither has, or one does not fit the type.
        """
        if not self.reset:
            return None
        try:
            with np.errstate(over="raise"):
                found = np.array(self.reset, dtype)
        except (OverflowError, FloatingPointError):
            found = None
        if found is None or (dtype.kind in "iub" and found.tolist() != list(self.reset)):
            raise ValueError(f"numbers that {dtype.name} does not hold")
        return found.reshape(()) if found.size == 1 else found.reshape(shape)


def written(states: Sequence[State], names: Mapping[int, str]) -> str:
    """Returns the metadata of states; `names` are the names of the function's results in the file, by index."""
    found = dict[str, dict[str, Any]]()
    for state in states:
        entry: dict[str, Any] = {"next": names[state.places[1]]}
        numbers = state.reset.reshape(-1)
        if state.data:
            alike = (numbers == numbers[0]).all()
            entry["reset"] = numbers[0].item() if alike else numbers.tolist()
        found[state.argument.name] = entry
    return json.dumps(found)


def read(text: str) -> dict[str, Kept]:
    """Returns the states that metadata name, by the name of their input.

    Raises:
        ValueError: The text is not such metadata.
    """
    found = dict[str, Kept]()
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("no object of names")
    for name, entry in cast("dict[str, Any]", document).items():
        if not isinstance(entry, dict) or not isinstance(following := cast("dict[str, Any]", entry).get("next"), str):
            raise ValueError(f'no output "next" of "{name}"')
        reset = cast("dict[str, Any]", entry).get("reset", [])
        numbers = cast("list[Any]", reset if isinstance(reset, list) else [reset])
        if not all(isinstance(n, int | float) for n in numbers):
            raise ValueError(f'something else than numbers as "reset" of "{name}"')
        found[name] = Kept(following, numbers)
    return found
