"""Checks the arguments that name a processor and the threads of a call."""

from qmlir.backends.cpu.llvm import Machine
from qmlir.dialects.loops import MOST_THREADS
from qmlir.errors import OptionError
from qmlir.settings.arguments import text_given


def require_threads(threads: int, machine: Machine) -> None:
    """Raises `OptionError` if a call of code for a processor cannot use this number of threads."""
    if not 1 <= threads <= MOST_THREADS:
        raise OptionError("threads", f"must be from 1 to {MOST_THREADS}", got=str(threads))
    if threads > 1 and not machine.system.hosted:
        raise OptionError("threads", "must be 1: there are none on this system", got=f"{threads} on {machine.triple}")


def machine_given(cpu: object, features: object, triple: object = None, target: object = None) -> Machine:
    """Returns the processor that a user names.

    Raises:
        OptionError: There is no such processor, feature or triple, or a device is named, whose host is this processor.
    """
    given = {"cpu": cpu, "features": features, "triple": triple}
    texts = {key: None if value is None else text_given(key, value) for key, value in given.items()}
    if target is not None and (named := [key for key, text in texts.items() if text is not None]):
        raise OptionError(named[0], "must not be given for a device: its host is this processor")
    return Machine.of(texts["cpu"], texts["features"], texts["triple"])
