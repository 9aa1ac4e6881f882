"""Walks over graphs of any depth: what some items reach or need, each item once.

A network may be a chain of thousands of operations, which a recursive function cannot follow: Python's stack ends at
a thousand calls. A graph in which paths meet again has more paths than items, which only a walk that remembers its
items passes in time.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)
Node = TypeVar("Node")


def reached(items: Iterable[Item], following: Callable[[Item], Iterable[Item]]) -> Iterator[Item]:
    """Yields some items and what follows them, each once; an item is followed by its own before its neighbours'.

    Args:
        items: The items to begin with, such as values or operations.
        following: Gives the items that follow an item directly; it is asked once an item has been yielded.
    """
    waiting, seen = [iter(items)], set[Item]()
    while waiting:
        for item in waiting[-1]:
            if item not in seen:
                seen.add(item)
                yield item
                waiting.append(iter(following(item)))
                break
        else:
            waiting.pop()


def needed_first(items: Iterable[Item], needs: Callable[[Item], Iterable[Item]]) -> Iterator[Item]:
    """Yields some items and what they need, each once and behind all that it needs.

    Args:
        items: The items to begin with, such as values or operations.
        needs: Gives the items that an item needs directly; no item may need itself, directly or through others.
    """
    waiting: list[tuple[Item | None, Iterator[Item]]] = [(None, iter(items))]
    seen = set[Item]()
    while waiting:
        item, rest = waiting[-1]
        for other in rest:
            if other not in seen:
                seen.add(other)
                waiting.append((other, iter(needs(other))))
                break
        else:
            waiting.pop()
            if waiting:
                assert item is not None
                yield item


def contributing(
    nodes: Sequence[Node],
    ends: Iterable[Item],
    inputs: Callable[[Node], Iterable[Item]],
    outputs: Callable[[Node], Iterable[Item]],
) -> list[Node]:
    """Returns the nodes on which some results depend, in order.

    Args:
        nodes: The nodes of a graph, each behind the nodes that it depends on.
        ends: The results.
        inputs: Gives what a node reads.
        outputs: Gives what a node computes.
    """
    wanted, found = set(ends), list[Node]()
    for node in reversed(nodes):
        if not wanted.isdisjoint(outputs(node)):
            found.append(node)
            wanted.update(inputs(node))
    return found[::-1]
