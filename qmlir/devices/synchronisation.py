"""How queues wait for each other: the table `[sync]` of a device file."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from pydantic import Field
from pydantic_core import PydanticCustomError

from qmlir.devices.values import Count, Name, Table
from qmlir.errors.near_misses import near_misses

Pair = tuple[Name, Name]
"""Two queues, in either order."""


KINDS = {"between": "tokens", "tokens": "tokens", "compares": "interlock"}
"""Key → the only kind of synchronisation that has this key."""


class Sync(Table):
    """How queues wait for each other."""

    kind: Literal["watermark", "tokens", "interlock", "descriptor", "barrier"] = Field(
        description="counters of finished commands, tokens between neighbours, addresses compared by the hardware, "
        "counts in descriptors, or everything waits for everything"
    )
    max_waits: Count = Field(default=3, description="queues that one command may wait for")
    depth: Count = Field(default=64, description="commands a queue holds; the program waits for room")
    between: tuple[Pair, ...] = Field(
        default=(),
        description="tokens: pairs of queues that give each other tokens; unless given, those next to each other "
        "in the file",
    )
    tokens: Count = Field(
        default=255, description="tokens: how many lie between two queues; who has one more to give waits for room"
    )

    compares: tuple[Name, ...] = Field(
        default=(),
        description="interlock: memories whose addresses the hardware compares; unless given, all. Who touches others "
        "waits for counters",
    )

    def compared(self, memories: Sequence[str]) -> frozenset[int]:
        """The numbers of the memories whose addresses the hardware compares.

        Args:
            memories: The names of all memories, in the order of the file.
        """
        if self.kind != "interlock":
            return frozenset()
        return frozenset(number for number, name in enumerate(memories) if name in (self.compares or memories))

    def neighbours(self, queues: Sequence[str]) -> list[set[int]]:
        """For each queue, the numbers of its neighbours: the queues that exchange tokens with it.

        Args:
            queues: The names of the queues, in the order of the file.
        """
        numbers = {name: number for number, name in enumerate(queues)}
        found: list[set[int]] = [set() for _ in queues]
        for first, second in self.between or pairwise(queues):
            found[numbers[first]].add(numbers[second])
            found[numbers[second]].add(numbers[first])
        return found

    def check(self, queues: Sequence[str], memories: Sequence[str]) -> None:
        """Checks the table against the queues and memories of the file.

        Raises:
            PydanticCustomError: A key belongs to another kind, a name is unknown, or no tokens reach a queue.
        """
        for key, kind in KINDS.items():
            if self.kind != kind and getattr(self, key) != type(self).model_fields[key].default:
                raise _error("sync.{key} is for kind {kind}, got {got}", key=key, kind=kind, got=self.kind)
        paired = [name for pair in self.between for name in pair]
        for key, what, names, known in (
            ("between", "queue", paired, queues),
            ("compares", "memory", self.compares, memories),
        ):
            if missing := [name for name in names if name not in known]:
                remedy = near_misses(missing[0], known) or "add it"
                text = "sync.{key}: there is no {what} {name}; {remedy}"
                raise _error(text, key=key, what=what, name=missing[0], remedy=remedy)
        reached = set(_reached(self.neighbours(queues)))
        if self.kind == "tokens" and (apart := [name for n, name in enumerate(queues) if n not in reached]):
            raise _error("sync.between: no tokens from queue {first} reach {name}", first=queues[0], name=apart[0])


def _reached(neighbours: Sequence[set[int]]) -> Iterator[int]:
    """Yields the queues that the first queue's tokens can reach, directly or through other queues."""
    found, waiting = {0}, [0]
    while waiting:
        yield (queue := waiting.pop())
        waiting += sorted(neighbours[queue] - found)
        found |= neighbours[queue]


def _error(text: str, **values: str) -> PydanticCustomError:
    return PydanticCustomError("sync", text, dict(values))  # pyright: ignore[reportArgumentType]
