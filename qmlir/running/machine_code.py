"""From the qint level to machine code of a processor: the stages below qint (stages.py), in order."""

from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from qmlir import stages
from qmlir.backends.cpu import Executable, Machine, build, enabled
from qmlir.ir.context import make_context
from qmlir.ir.entries import signatures_of
from qmlir.ir.facts import IN_PLACE
from qmlir.ir.garbage import collected_rarely
from qmlir.ir.passes import Pipeline
from qmlir.ir.signature import Signature, entry_functions, main_function, signature_of


@collected_rarely
def to_machine_code(
    module: ModuleOp, threads: int = 1, machine: Machine | None = None, *, counter: str | None = None,
    memory: str = "fast", debug_info: bool = False, later: bool = False, hook: str | None = None,
) -> Executable:  # fmt: skip
    """Compiles a network on the qint level to machine code; its passes change `module` in place.

    Args:
        module: The network.
        threads: Threads that one call may use.
        machine: The processor to generate code for; by default this one.
        counter: The counter that the code reads around each call of a kernel, an option of `time-calls`; the readings
            are one more output, behind the others. None for code without.
        memory: "fast", or "small" for kernels and a plan of the arena that take little memory.
        debug_info: Whether debug lines name the layers.
        hook: The function that the code tells where layers begin and end (`call-layers`), of a network whose operations
            are numbered; None for code without.
        later: Whether machine code is generated when the object or a call is asked for, and not now: for callers that
            want the text, or the assembly alone.
    """
    machine = machine or Machine.host()
    signatures = to_planned_loops(module, threads, machine, counter=counter, memory=memory, hook=hook)
    to_llvm = stages.to_llvm(_enabled(machine), machine.system.bits)
    Pipeline(*to_llvm).apply(module, make_context(), verify_each=stages.VERIFY_LOOPS)
    (entry, signature), *others = signatures.items()
    settings = {"debug_info": debug_info, "later": later}
    return build(module, signature, entry=entry, machine=machine, others=dict(others), **settings)


def to_planned_loops(
    module: ModuleOp, threads: int = 1, machine: Machine | None = None, *, counter: str | None = None,
    memory: str = "fast", hook: str | None = None,
) -> Mapping[str, Signature]:  # fmt: skip
    """Lowers a network on the qint level to loops on one arena of memory; its passes change `module` in place.

    Args:
        module: The network.
        threads: Threads that one call may use.
        machine: The processor to generate code for; by default this one.
        counter: As for `to_machine_code`.
        memory: As for `to_machine_code`.
        hook: As for `to_machine_code`.

    Returns:
        The inputs and outputs of the code, of each entry by its name.
    """
    signatures = signatures_of(module)
    function = None if counter is None else main_function(module)  # one is timed at a time
    loops = stages.to_loops(_enabled(machine or Machine.host()), memory, counter)
    Pipeline(*loops).apply(module, make_context(), verify_each=stages.VERIFY_LOOPS)
    if function is not None:
        readings = signature_of(function).inputs[-1]  # results are arguments on this level, the readings the last
        (entry, own), *_ = signatures.items()
        signatures = {entry: replace(own, outputs=(*own.outputs, readings))}
    Pipeline(*stages.to_plan(threads, memory, hook)).apply(module, make_context(), verify_each=stages.VERIFY_LOOPS)
    return _in_place(module, signatures)


def _in_place(module: ModuleOp, signatures: Mapping[str, Signature]) -> Mapping[str, Signature]:
    """Signatures that say which states calls renew where they are: those of which each entry with the state does so."""
    renewed = dict[str, bool]()
    for function in entry_functions(module):
        places = IN_PLACE.of(function) or ()
        pairs = set(zip(places[::2], places[1::2], strict=True))
        for state in signatures[function.sym_name.data].states:
            renewed[state.argument.name] = state.places in pairs and renewed.get(state.argument.name, True)
    return {
        name: replace(each, states=tuple(replace(s, in_place=renewed[s.argument.name]) for s in each.states))
        for name, each in signatures.items()
    }


def _enabled(machine: Machine) -> str:
    """The features of a processor as passes take them: `+avx2,+fma`."""
    return ",".join(f"+{name}" for name in sorted(enabled(machine)))
