"""What is asked of a bundle, and the names in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qmlir.cli.bundle import C_TYPES, c_identifier, entry_name
from qmlir.cli.streams import StateBlock
from qmlir.errors import OptionError, UnsupportedError
from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.callable_network import shared_states
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
    label     its name in macros: INPUT0, OUTPUT1, or DECODE_INPUT0 of an entry
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
class Call:
    """A function of a bundle: that of a network with one, or an entry of a network with several.

    entry      the entry's name in the network; empty for the only function
    name       its name in C, behind the bundle's: `decode`; empty for the only function
    symbol     the function that takes all memory from its caller, and states among its inputs and outputs
    signature  what it takes and gives, and its states
    inputs     what a program gives, without states
    outputs    what a program gets
    """

    entry: str
    name: str
    symbol: str
    signature: "Signature"
    inputs: Sequence[Port]
    outputs: Sequence[Port]

    @property
    def ports(self) -> Sequence[Port]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)


@dataclass(frozen=True)
class Plan:
    """A bundle to write.

    name      the prefix of all symbols and file names
    api       one of `APIS`
    weights   one of `PLACES`
    archive   whether the object lies in a static library
    calls     the functions of the network
    block     where their states lie; None if there are none
    device    the name of the device whose commands compute the network; None for a network of the processor's alone
    routines  the functions in the object that compute what a device leaves to the processor
    layers    whether the code tells a function where layers begin and end
    """

    name: str
    api: str
    weights: str
    archive: bool
    calls: Sequence[Call]
    block: StateBlock | None
    device: str | None = None
    routines: Sequence[str] = ()
    layers: bool = False

    @property
    def hook(self) -> str | None:
        """The function that is told where layers begin and end; None if there is none."""
        return f"{self.name}_layer" if self.layers else None

    @property
    def macro(self) -> str:
        """The prefix of macros."""
        return self.name.upper()

    @property
    def first(self) -> Call:
        """The only function, or the first entry."""
        return self.calls[0]

    def called(self, call: Call) -> str:
        """Returns the function that programs call: it takes what the API has them give, and keeps the states."""
        match self.api:
            case "static":
                return f"{call.symbol}_run"
            case "glow":
                return self.name
            case _:
                return f"{call.symbol}_step" if self.block else call.symbol

    @property
    def linked(self) -> str:
        """The name of the file to link."""
        return f"lib{self.name}.a" if self.archive else f"{self.name}.o"

    @property
    def has_object(self) -> bool:
        """Whether there is anything to link: code, or weights that do not lie elsewhere."""
        return self.device is None or bool(self.routines) or self.weights == "object"

    @property
    def passes_weights(self) -> bool:
        """Whether the caller of the one call passes the weights, which lie in a file."""
        return self.weights == "file"

    @property
    def mutable(self) -> int:
        """The bytes of memory that hold all inputs and outputs, as Glow's bundles have it."""
        last = self.first.ports[-1]
        return last.offset + aligned(last.bytes)

    @property
    def state_size(self) -> int:
        """The bytes in which calls keep states; a device has those before a call and behind it in its memories."""
        if self.block is None:
            return 0
        return self.block.size if self.device is None else self.block.exported_size

    @property
    def state_functions(self) -> Sequence[str]:
        """The functions on states, if there are any."""
        return [f"{self.name}_{each}" for each in STATE_FUNCTIONS] if self.block else []

    def symbols(self) -> list[str]:
        """Returns the names that the object defines for others."""
        weights = [f"{self.name}_weights"] if self.weights == "object" else []
        if self.device is not None:
            return [*self.routines, *weights]
        each = [[call.symbol, *({self.called(call)} - {call.symbol})] for call in self.calls]
        hook = [] if self.hook is None else [self.hook, f"{self.name}_layers", f"{self.name}_results"]
        return [*(symbol for symbols in each for symbol in symbols), *self.state_functions, *weights, *hook]


IN_STEPS = ("state", "kept", "same", "checksum", "different", "best", "in", "out", "i", "bytes")
"""Names that the functions and programs of networks with states or several entries have for something else."""

IN_DEVICES = ("npu", "failed", "state", "routines", "images", "inputs_of", "outputs_of", "first")
"""Names that the programs of networks on devices have for something else."""

STATE_FUNCTIONS = ("reset", "export_state", "import_state")
"""What a bundle does with states beside the calls, by the names of the functions behind the bundle's."""


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
    signatures: "Mapping[str, Signature]", name: str, *, api: str = "static", weights: str | None = None,
    archive: bool = False, device: str | None = None, layers: bool = False,
) -> Plan:  # fmt: skip
    """Returns the plan of a bundle for a network whose entries have these signatures.

    Args:
        signatures: What the functions take and give, by the names of the entries; one for a network with one function.
        name: The prefix of all symbols and files.
        api: One of `APIS`.
        weights: One of `PLACES`; None for that which the API has.
        archive: Whether the object lies in a static library.
        device: The name of the device that computes the network, if there is one.
        layers: Whether the code tells a function where layers begin and end.

    Raises:
        OptionError: The place of the weights is none that the API knows, or the API is none of a device's; or layers
            are asked for of a device, or of a network with several entries.
        UnsupportedError: The network takes batches; it has states or entries, and the API no call for them; it has
            entries, and a device computes it; or two functions would have one name.
    """
    if device is not None:
        _require_device(signatures, api)
    if layers and device is not None:
        need = "is for bundles of a processor alone; the runtime of a device has the hook layer"
        raise OptionError("--layers", need, got=device, remedy="leave it out")
    if layers and len(signatures) > 1:
        remedy = "choose one with --entry"
        raise OptionError("--layers", "is for networks with one function", got=", ".join(signatures), remedy=remedy)
    for signature in signatures.values():
        if signature.batch is not None:
            remedy = "make it of the network before batch-samples: its calls compute the same bits one by one"
            raise UnsupportedError(
                "must take one sample a call in a bundle", f"up to {signature.batch.most}", remedy, where="network"
            )
    states = shared_states(signatures)
    if api == "glow":
        _require_glow(signatures, len(states))
    place = weights or ("file" if api == "glow" else "object")
    if api == "glow" and place != "file":
        remedy = "leave it out: Glow's layout has the weights in files"
        raise OptionError("--weights-in", "must be file with --api glow", got=place, remedy=remedy)
    several = len(signatures) > 1
    calls: list[Call] = []
    for entry, signature in signatures.items():
        word = c_identifier(entry) if several else ""
        symbol = f"{name}_{word}" if several else entry_of(name, api)
        reserved = (*(IN_STEPS if several or states or device else ()), *(IN_DEVICES if device else ()))
        ports = _ports(signature, f"{word.upper()}_" if several else "", reserved)
        calls.append(Call(entry if several else "", word, symbol, signature, *ports))
    plan = Plan(name, api, place, archive, calls, StateBlock.of(states) if states else None, device, layers=layers)
    _require_distinct(plan)
    return plan


def _require_device(signatures: "Mapping[str, Signature]", api: str) -> None:
    """Refuses what a program of a device has no call for."""
    if api == "glow":
        remedy = "take --api static or dynamic"
        raise OptionError("--api", "must be static or dynamic with --target", got=api, remedy=remedy)
    if len(signatures) > 1:
        need, got = "must have one function in a bundle for a device", ", ".join(signatures)
        raise UnsupportedError(need, got, "choose one with --entry", where="network")


def _require_glow(signatures: "Mapping[str, Signature]", states: int) -> None:
    """Raises UnsupportedError for a network that Glow's one function cannot call."""
    if len(signatures) > 1:
        need, got = "must have one function with --api glow", ", ".join(signatures)
        remedy = "take --api static or dynamic, or choose one with --entry"
        raise UnsupportedError(need, got, remedy, where="network")
    if states:
        remedy = "take --api static or dynamic"
        raise UnsupportedError("must keep no states with --api glow", f"{states} states", remedy, where="network")


def _require_distinct(plan: Plan) -> None:
    """Raises UnsupportedError if two of the functions or arrays of a bundle would have one name."""
    others = (*STATE_FUNCTIONS, "weights", "arena", "state", "selftest", "runs_here")
    taken = {f"{plan.name}_{each}".upper(): "the bundle" for each in others}
    for call in plan.calls if len(plan.calls) > 1 else ():
        for symbol in sorted({call.symbol, plan.called(call)}):
            if (other := taken.get(symbol.upper())) is not None:
                need = f"must have a name in C that nothing else has; {other} has {symbol}"
                remedy = "give the entry another name in --entries of quantize"
                raise UnsupportedError(need, call.entry, remedy, where=f'entry "{call.entry}"')
        taken |= {symbol.upper(): f'entry "{call.entry}"' for symbol in (call.symbol, plan.called(call))}


def _ports(signature: "Signature", prefix: str, reserved: Sequence[str]) -> list[list[Port]]:
    """Returns the inputs and the outputs of a function in C; its macros have the prefix, and arguments other names."""
    ports: list[list[Port]] = []
    taken, offset = {"weights", "arena", "inputs", "outputs", *reserved}, 0
    for kind, specs in (("input", signature.inputs), ("output", signature.outputs)):
        ports.append([])
        for i, spec in enumerate(specs):
            argument = c_identifier(spec.name).lower()
            if argument in taken or entry_name(argument) != argument or len(argument) > LONGEST:
                argument = f"{kind}{i}"
            taken.add(argument)
            port = Port(spec, argument, f"{prefix}{kind.upper()}{i}", offset)
            offset += aligned(port.bytes)
            ports[-1].append(port)
    return ports


LONGEST = 40
"""The longest name of an argument; tensors of some exporters carry a whole path of layers."""
