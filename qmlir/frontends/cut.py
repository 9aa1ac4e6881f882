"""A part of a model: the tensors at which a network begins and ends in place of the file's inputs and outputs.

Each frontend imports only the operators on the way from the new inputs to the new outputs, so it does not matter what
the rest of the model consists of. The names are those of tensors in the file.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from qmlir.errors import OptionError, near_misses

_SHOWN = 4
"""The most names that an error lists."""


@dataclass(frozen=True)
class Cut:
    """Where a network begins and ends.

    inputs   names of the tensors that become the arguments, in order; None for the file's inputs that are needed
    outputs  names of the tensors that become the results, in order; None for the file's outputs
    """

    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None

    def given(self) -> Mapping[str, tuple[str, ...]]:
        """Returns the names by option, without the options that are left out."""
        pairs = {"inputs": self.inputs, "outputs": self.outputs}
        return {option: names for option, names in pairs.items() if names is not None}

    def check(self, tensors: Iterable[str]) -> None:
        """Checks the names against those of the file's tensors.

        Raises:
            OptionError: A name is none of a tensor, with similar names; or a list is empty or has a name twice.
        """
        known = list(dict.fromkeys(t for t in tensors if t))
        for option, names in self.given().items():
            if not names:
                raise OptionError(option, "must name at least one tensor", got="none", remedy="leave it out")
            for name, count in Counter(names).items():
                if name not in known:
                    raise OptionError(
                        f"{option} {name}", "must be the name of a tensor of the model",
                        remedy=near_misses(name, known) or "qmlir import writes the names of its tensors",
                    )  # fmt: skip
                if count > 1:
                    raise OptionError(option, "must name different tensors", got=f'"{name}" {count} times')

    def check_needed(self, needed: Iterable[str], file_inputs: Sequence[str]) -> None:
        """Checks that the new inputs are exactly what the outputs depend on.

        Args:
            needed: The new inputs and the file's inputs that the outputs depend on.
            file_inputs: The inputs of the file.

        Raises:
            OptionError: An output depends on another input of the file, or no output depends on one of the new inputs.
        """
        if self.inputs is None:
            return
        read = set(needed)
        if lacking := [n for n in file_inputs if n in read and n not in self.inputs]:
            raise OptionError(
                "inputs", "must be all that the outputs depend on", got=f"outputs that depend on {listed(lacking)}",
                remedy=f"add {listed(lacking)}, or tensors between the input and the outputs",
            )  # fmt: skip
        if unread := [n for n in self.inputs if n not in read]:
            raise OptionError(
                "inputs", "must be what an output depends on", got=f"no output that depends on {listed(unread)}",
                remedy="leave it out" if len(unread) == 1 else "leave them out",
            )  # fmt: skip


WHOLE = Cut()
"""The whole model."""


def listed(names: Sequence[str]) -> str:
    """Returns the names, quoted: all of them, or the first ones and how many more there are."""
    shown = ", ".join(f'"{n}"' for n in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
