"""What is asked of a bundle, and the names in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qmlir.cli.bundle import C_TYPES, c_identifier, entry_name
from qmlir.errors import OptionError, UnsupportedError
from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.native import is_identifier

if TYPE_CHECKING:
    from qmlir.ir.signature import Signature, TensorSpec

APIS = ("static", "dynamic", "glow")
"""How a program calls the network: with weights and an arena inside the object, with memory of its own, or as Glow's
bundles are called."""

PLACES = ("object", "array", "file")
"""Where the weights are: a section of the object, an array in C, or a file."""


@dataclass(frozen=True)
class Port:
    """An input or an output in C.

    argument  its name as an argument of a function
    label     its name in macros: INPUT0, OUTPUT1
    offset    its place in the memory of inputs and outputs that Glow's bundles have, in bytes
    """

    spec: "TensorSpec"
    argument: str
    label: str
    offset: int

    @property
    def type(self) -> str:
        """The C type of an element; an integer of that size where C has no such type."""
        dtype = self.spec.dtype
        return C_TYPES.get(dtype.name, f"uint{8 * dtype.itemsize}_t")

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.spec.shape:
            count *= size
        return count

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return self.elements * self.spec.dtype.itemsize


@dataclass(frozen=True)
class Plan:
    """A bundle to write.

    name      the prefix of all symbols and file names
    api       one of `APIS`
    weights   one of `PLACES`
    archive   whether the object lies in a static library
    """

    name: str
    api: str
    weights: str
    archive: bool
    inputs: Sequence[Port]
    outputs: Sequence[Port]

    @property
    def macro(self) -> str:
        """The prefix of macros."""
        return self.name.upper()

    @property
    def entry(self) -> str:
        """The function that takes all memory from its caller."""
        return entry_of(self.name, self.api)

    @property
    def ports(self) -> Sequence[Port]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def linked(self) -> str:
        """The name of the file to link."""
        return f"lib{self.name}.a" if self.archive else f"{self.name}.o"

    @property
    def passes_weights(self) -> bool:
        """Whether the caller of the one call passes the weights, which lie in a file."""
        return self.weights == "file"

    @property
    def mutable(self) -> int:
        """The bytes of memory that hold all inputs and outputs, as Glow's bundles have it."""
        last = self.ports[-1]
        return last.offset + aligned(last.bytes)


def entry_of(name: str, api: str) -> str:
    """Returns the name of the function of the network: for Glow's layout, the name is the bundle's own function."""
    return f"{name}_net" if api == "glow" else name


def aligned(size: int) -> int:
    """Returns a size that is a multiple of a cache line."""
    return -(-size // CACHE_LINE) * CACHE_LINE


def bundle_name(prefix: str | None, stem: str) -> str:
    """Returns the prefix of a bundle's symbols: the prefix given, or the model's name as an identifier.

    Raises:
        OptionError: The prefix is no identifier of C, or a name of C or its library.
    """
    if prefix is None:
        return entry_name(c_identifier(stem).lower())
    if not is_identifier(prefix) or entry_name(prefix) != prefix:
        need = "must be an identifier of C that the language and its library do not use"
        raise OptionError("--prefix", need, got=prefix, remedy="choose another name")
    return prefix


def planned(
    signature: "Signature", name: str, *, api: str = "static", weights: str | None = None, archive: bool = False
) -> Plan:
    """Returns the plan of a bundle for a network with this signature.

    Raises:
        OptionError: The place of the weights is none that the API knows.
        UnsupportedError: The network keeps states, or takes batches.
    """
    if signature.batch is not None:
        remedy = "make it of the network before batch-samples: its calls compute the same bits one by one"
        raise UnsupportedError(
            "must take one sample a call in a bundle", f"up to {signature.batch.most}", remedy, where="network"
        )
    if signature.states:
        remedy = "compile it to an .o file, whose header has functions that keep the states"
        raise UnsupportedError("must keep no states in a bundle", f"{len(signature.states)}", remedy, where="network")
    place = weights or ("file" if api == "glow" else "object")
    if api == "glow" and place != "file":
        remedy = "leave it out: Glow's layout has the weights in files"
        raise OptionError("--weights-in", "must be file with --api glow", got=place, remedy=remedy)
    ports: list[list[Port]] = []
    taken, offset = {"weights", "arena", "inputs", "outputs"}, 0
    for kind, specs in (("input", signature.inputs), ("output", signature.outputs)):
        ports.append([])
        for i, spec in enumerate(specs):
            argument = c_identifier(spec.name).lower()
            if argument in taken or entry_name(argument) != argument or len(argument) > LONGEST:
                argument = f"{kind}{i}"
            taken.add(argument)
            port = Port(spec, argument, f"{kind.upper()}{i}", offset)
            offset += aligned(port.bytes)
            ports[-1].append(port)
    return Plan(name, api, place, archive, *ports)


LONGEST = 40
"""The longest name of an argument; tensors of some exporters carry a whole path of layers."""
