"""Operations on floats: none but casts of inputs and outputs, and what moves them; each with the way of its floats."""

from collections.abc import Mapping, Sequence
from typing import Any

from qmlir.checker.network import Network, Node
from qmlir.checker.unproven import UnprovenError

MOVING = (
    *("nn.reshape", "nn.transpose", "nn.broadcast", "nn.concat", "nn.pad", "nn.dilate", "nn.slice"),
    *("nn.gather", "nn.gather_nd", "nn.scatter_nd"),
)
"""Operations that may move floats at the entry and at the exit."""

QUANTIZES, DEQUANTIZES, STORES = "quant.qcast", "quant.dcast", "quant.scast"

LONGEST_PATH = 16
"""The most operations that a path lists."""


def float_fields(network: Network) -> dict[str, Any]:
    """The fields `entry` and `exit` of a certificate.

    Raises:
        UnprovenError: An operation computes on floats, or the function is none of a network.
    """
    if network.strange:
        raise UnprovenError(network.strange[0], "must be one function without loops and branches")
    entering = {n for n in network.arguments if network.values[n].float}
    found: dict[str, list[Mapping[str, Any]]] = {"entry": [], "exit": []}
    leaving = _leaving(network)
    for node in network.nodes:
        floats = [n for n in node.operands if network.values[n].float]
        makes = any(network.values[n].float for n in node.results)
        if node.kind in ("func.return", "nn.constant") or not (floats or makes):
            continue
        if node.kind in (QUANTIZES, *MOVING) and floats and entering.issuperset(floats):
            entering.update(node.results)
            found["entry"].append(_float_fields(network, node))
        elif node.index in leaving:
            found["exit"].append(_float_fields(network, node))
        else:
            raise _refused(network, node)
    return found


def _refused(network: Network, node: Node) -> UnprovenError:
    """The error about an operation on floats, with the way of its floats."""
    fields = _float_fields(network, node)
    way, why = " → ".join(fields["path"]), node.why or "it computes on floats"
    got = f"{node.called} on {' and '.join(fields['types'])} ({why}), by way of {way}"
    return UnprovenError(got, "must compute on integers by integer instructions")


def _leaving(network: Network) -> set[int]:
    """The operations whose floats come from integers and are only moved until they are returned.

    One walk finds those whose floats come from integers; one walk back finds what becomes of their floats.
    """
    dequantized, leaving = set[int](), set[int]()
    for node in network.nodes:
        floats = [n for n in node.operands if network.values[n].float]
        moves = node.kind in MOVING and bool(floats) and dequantized.issuperset(floats)
        if node.kind == DEQUANTIZES or moves:
            dequantized.update(node.results)
    for node in reversed(network.nodes):
        readers = [reader for result in node.results for reader in network.readers[result]]
        returned = all(r.kind == "func.return" or (r.kind in MOVING and r.index in leaving) for r in readers)
        if dequantized.issuperset(node.results) and node.results and returned:
            leaving.add(node.index)
    return leaving


def _float_fields(network: Network, node: Node) -> Mapping[str, Any]:
    """The fields of an operation at the entry or the exit."""
    values = [network.values[n] for n in (*node.operands, *node.results)]
    types = list(dict.fromkeys(value.element for value in values if value.float))
    casts = node.kind in (QUANTIZES, DEQUANTIZES)
    reason = "it casts between floats and integers" if casts else f"it computes on {' and '.join(types)}"
    return {
        "operation": node.kind,
        "node": node.name,
        "types": types,
        "reason": node.why or reason,
        "path": _path(network, node),
    }


def _path(network: Network, node: Node) -> Sequence[str]:
    """The operations that make an operation's floats, first to last, and before them the input or the integers."""
    steps, at = [node.called], node
    while len(steps) < LONGEST_PATH:
        data = [n for n in at.operands if n not in network.makers or network.makers[n].kind != "nn.constant"]
        source = next(iter([n for n in data if network.values[n].float] or data), None)
        if source is None:
            break
        if source not in network.makers:
            steps.append(f'input "{network.arguments.get(source, "")}"')
            break
        at = network.makers[source]
        if at.kind == STORES:
            continue
        steps.append(at.called)
        if not network.values[source].float:
            break
    return steps[::-1]


def types_of(network: Network) -> list[str]:
    """The types of the elements that a function's operations read and write, without those of constants."""
    constants = {n for node in network.nodes if node.kind == "nn.constant" for n in node.results}
    used = {n for node in network.nodes for n in (*node.operands, *node.results)} - constants
    return sorted({network.values[n].element for n in used})
