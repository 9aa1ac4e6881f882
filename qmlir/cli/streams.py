"""The part of a C header that keeps the states of a network between calls (ir/states.py).

    NAME_reset(state)                                     gives the states the values before the first call
    NAME_step(weights, arena, state, inputs, outputs)     calls the network on what a caller gives, and keeps the states

If the network has several entries, each has a `step`, and they share the block.

A caller provides the memory: one block of NAME_STATE_SIZE bytes for each stream. The block holds a state once where the
code renews it in place. Of other states the code writes the next values to another place, so the block holds them
twice, and its first byte says which of the two is the newest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.callable_network import shared_states
from qmlir.ir.signature import Signature, State

LISTED = 16
"""The bytes of a reset value in a line."""


@dataclass(frozen=True)
class StateBlock:
    """Where states lie in a block: a line, whose first byte says which half is the newest, two halves, and a rest.

    states   the states of all entries
    offsets  the place in a half of each state, by name, that calls do not renew in place
    half     the bytes of a half
    places   the place in the block of each state, by name, that calls renew in place
    size     the bytes of the block
    """

    states: Sequence[State]
    offsets: Mapping[str, int]
    half: int
    places: Mapping[str, int]
    size: int

    @staticmethod
    def of(states: Sequence[State]) -> "StateBlock":
        """Returns the block of some states, each of which begins on a line."""
        offsets, half = _placed([state for state in states if not state.in_place], 0)
        places, size = _placed([state for state in states if state.in_place], CACHE_LINE + 2 * half)
        return StateBlock(states, offsets, half, places, size)

    def where(self, state: State, half: str) -> tuple[str, int]:
        """Returns the place of a state: its bytes behind `half`, or behind `state`, the block."""
        name = state.argument.name
        return (half, self.offsets[name]) if name in self.offsets else ("state", self.places[name])

    def first(self, state: State) -> int:
        """Returns the place of a state in a block before the first call."""
        half, offset = self.where(state, "low")
        return offset if half == "state" else CACHE_LINE + offset

    @property
    def exported(self) -> list[int]:
        """The place of each state among the bytes that a program exports: one behind the other, without gaps."""
        ends = [0]
        for state in self.states:
            ends.append(ends[-1] + state.reset.nbytes)
        return ends[:-1]

    @property
    def exported_size(self) -> int:
        """The bytes of all states."""
        return sum(state.reset.nbytes for state in self.states)


def _placed(states: Sequence[State], begin: int) -> tuple[dict[str, int], int]:
    """The place of each state by name, one behind the other from a line on, and the end of the last."""
    places: dict[str, int] = {}
    for state in states:
        places[state.argument.name] = begin
        begin += -(-state.reset.nbytes // CACHE_LINE) * CACHE_LINE
    return places, begin


def stream_functions(signatures: Mapping[str, Signature], prefix: str, name: str) -> list[str]:
    """Returns the lines that declare the block of states and define the functions on it.

    Args:
        signatures: The signatures of the network's functions by their names, with states that they share.
        prefix: The prefix of the header's macros.
        name: The network's name, that of its function if there is one.
    """
    states = shared_states(signatures)
    block = StateBlock.of(states)
    resets = [line for state in states for line in _reset(state, block)]
    if len(signatures) == 1:
        (only,) = signatures.values()
        kept = ": " + ", ".join(f"inputs[{s.places[0]}] and outputs[{s.places[1]}]" for s in only.states)
        steps = f"{name}_step takes"
    else:
        kept = ", of whichever function a call is"
        steps = f"{', '.join(f'{entry}_step' for entry in signatures)} take"
    return [
        f"/* The states live from call to call{kept}.",
        "   These functions keep them in a block of memory, one for each stream, which starts on a multiple of",
        f"   {prefix}_ALIGNMENT bytes. {steps} the other inputs and outputs, in their order. */",
        "#include <string.h>",
        "",
        f"#define {prefix}_STATE_SIZE {block.size}",
        "",
        f"static inline void {name}_reset(uint8_t *state) {{",
        f"  memset(state, 0, {prefix}_STATE_SIZE);",
        *resets,
        "}",
        "",
        *(line for entry, signature in signatures.items() for line in _step(entry, signature, block)),
    ]


def _step(name: str, signature: Signature, block: StateBlock) -> list[str]:
    """Returns the lines of the function that calls an entry on the block; it copies states that the entry lacks."""
    befores, afters = (
        {state.places[side]: "{} + {}".format(*block.where(state, half)) for state in signature.states}
        for side, half in enumerate(("before", "after"))
    )
    flat, size = signature.flat(), block.half
    lacking = block.offsets.keys() - {state.argument.name for state in signature.states}
    halves = [
        f"  uint8_t *before = state + {CACHE_LINE} + (state[0] ? {size} : 0);",
        f"  uint8_t *after = state + {CACHE_LINE} + (state[0] ? 0 : {size});",
    ]
    tables = (("inputs", signature.inputs), ("outputs", signature.outputs))
    return [
        f"static inline void {name}_step(const uint8_t *weights, uint8_t *arena, uint8_t *state,",
        "    const void *const *inputs, void *const *outputs) {",
        *(halves if size else []),
        f"  const void *in[{len(flat.inputs)}] = {{{_places(len(flat.inputs), befores, 'inputs')}}};",
        f"  void *out[{len(flat.outputs)}] = {{{_places(len(flat.outputs), afters, 'outputs')}}};",
        *(f"  (void){table};" for table, specs in tables if not specs),
        *([f"  memcpy(after, before, {size});"] if lacking else []),
        f"  {name}(weights, arena, in, out);",
        *(["  state[0] = !state[0];"] if size else []),
        "}",
        "",
    ]


def _places(count: int, states: Mapping[int, str], table: str) -> str:
    """Returns the entries of a table of the ABI: those that a caller gives, and the states in the block."""
    given = iter(range(count))
    return ", ".join(states.get(i) or f"{table}[{next(given)}]" for i in range(count))


def _reset(state: State, block: StateBlock) -> list[str]:
    """Returns the lines that write a reset value into a block of zeros."""
    data = state.reset.tobytes()
    place = f"state + {block.first(state)}"
    if not any(data):
        return []
    element, count = data[: state.reset.itemsize], math.prod(state.reset.shape)
    if data == element * count:
        if len(set(element)) == 1:
            return [f"  memset({place}, {element[0]}, {len(data)});"]
        listed = ", ".join(map(str, element))
        return [
            "  {",
            f"    static const uint8_t value[] = {{{listed}}};",
            f"    for (int i = 0; i < {count}; ++i) memcpy({place} + i * {len(element)}, value, {len(element)});",
            "  }",
        ]
    rows = [", ".join(map(str, data[i : i + LISTED])) + "," for i in range(0, len(data), LISTED)]
    return [
        "  {",
        "    static const uint8_t value[] = {",
        *(f"      {row}" for row in rows),
        "    };",
        f"    memcpy({place}, value, {len(data)});",
        "  }",
    ]
