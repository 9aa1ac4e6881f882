"""Calls of a network with states, as samples that can be read again: the states before each call are further inputs.

A call changes little of a state: some rows of a cache. So blocks of bytes that are as before are held once, and an
array is put together when somebody asks for it. The caches of a decoder that take 6 MB then take 50 MB for 64 calls, in
place of 380.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from qmlir.numerics import Array

BLOCK = 1024
"""The bytes of a block."""


class _Arrays(abc.ABC):
    """The arrays of an input or a state, one for each call."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def at(self, place: int) -> Array:
        """Returns the array of a call."""


class Series(_Arrays):
    """Arrays of one shape and element type in blocks of bytes; one that is as before, or as at first, is held once."""

    def __init__(self) -> None:
        self._held: list[list[Array]] = []
        self._shape, self._dtype = tuple[int, ...](), np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self._held)

    def at(self, place: int) -> Array:
        return np.concatenate(self._held[place]).view(self._dtype).reshape(self._shape)

    def append(self, array: Array) -> None:
        """Adds a copy of an array."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        whole = data.size // BLOCK * BLOCK
        rows, rest = data[:whole].reshape(-1, BLOCK), data[whole:].copy()
        if not self._held:
            self._shape, self._dtype = array.shape, array.dtype
            self._held.append([*rows.copy(), rest])
            return
        blocks, first = self._held[-1][:-1], self._held[0]
        before = np.concatenate(blocks).reshape(rows.shape) if blocks else rows
        for i in np.flatnonzero((rows != before).any(axis=1)):
            blocks[i] = first[i] if np.array_equal(rows[i], first[i]) else rows[i].copy()
        self._held.append([*blocks, rest])


@dataclass(frozen=True)
class _Computed(_Arrays):
    """Arrays that a function makes of others."""

    arrays: _Arrays
    function: Callable[[Array], Array]

    def __len__(self) -> int:
        return len(self.arrays)

    def at(self, place: int) -> Array:
        return self.function(self.arrays.at(place))


@dataclass(frozen=True)
class _Chosen(_Arrays):
    """Some of other arrays."""

    arrays: _Arrays
    places: range

    def __len__(self) -> int:
        return len(self.places)

    def at(self, place: int) -> Array:
        return self.arrays.at(self.places[place])


class Replayed(Sequence["Call"]):
    """Samples of a network with states as single calls: arrays by the names of inputs and states."""

    def __init__(self, calls: Iterable[Mapping[str, Array]] = ()):
        self._arrays: dict[str, _Arrays] = {}
        for call in calls:
            self.append(call)

    def append(self, call: Mapping[str, Array]) -> None:
        """Adds a call, which has the names of the calls before."""
        for name, array in call.items():
            self.record(name, array)

    def record(self, name: str, array: Array) -> None:
        """Adds an input or a state of the first call that lacks it; there are as many calls as have all names."""
        series = self._arrays.setdefault(name, Series())
        assert isinstance(series, Series), "calls that were made of others stay as they are"
        series.append(array)

    def __len__(self) -> int:
        return min(map(len, self._arrays.values()), default=0)

    @overload
    def __getitem__(self, index: int) -> "Call": ...
    @overload
    def __getitem__(self, index: slice) -> "Replayed": ...
    def __getitem__(self, index: int | slice) -> "Call | Replayed":
        places = range(len(self))[index]
        if isinstance(places, int):
            return Call(self._arrays, places)
        return _of({name: _Chosen(arrays, places) for name, arrays in self._arrays.items()})

    def computed(self, name: str, made: Mapping[str, Callable[[Array], Array]]) -> "Replayed":
        """Returns calls in which functions make other arrays of those of a name.

        Args:
            name: The name of an input or a state.
            made: The functions, by the names of the arrays that they make in its place.
        """
        if name not in self._arrays:
            return self
        others = {other: arrays for other, arrays in self._arrays.items() if other != name}
        return _of(others | {new: _Computed(self._arrays[name], function) for new, function in made.items()})


def _of(arrays: dict[str, _Arrays]) -> Replayed:
    """Returns calls with these arrays."""
    found = Replayed()
    found._arrays = arrays  # pyright: ignore[reportPrivateUsage]
    return found


class Call(Mapping[str, Array]):
    """A call, whose arrays are put together when somebody asks for them."""

    def __init__(self, arrays: Mapping[str, _Arrays], place: int):
        self._arrays, self._place = arrays, place

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name].at(self._place)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def in_order(self, names: Sequence[str]) -> Sequence[Array]:
        """Returns the arrays of these names, which are put together when somebody asks for them, too."""
        return _InOrder(self, names)


@dataclass(frozen=True)
class _InOrder(Sequence[Array]):
    """The arrays of a call in the order of names."""

    call: Call
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Array]: ...
    def __getitem__(self, index: int | slice) -> Array | Sequence[Array]:
        if isinstance(index, slice):
            return _InOrder(self.call, self.names[index])
        return self.call[self.names[index]]
