"""What a module records about its inputs: symbols of their first dimensions, and how samples are read from files.

    module attributes {qmlir.batch = {image = "N"}, qmlir.preprocess = "scale=0.00392157", qmlir.dtype = "uint8"} {…}

These are facts for people and for later commands; they do not change what the network computes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.errors import PipelineError
from qmlir.ir.fact import Fact
from qmlir.ir.facts import BATCH, BATCH_SIZE, DTYPE, MIXES, PREPROCESS
from qmlir.ir.reading import ReadingNotes


def batch_symbols(module: ModuleOp) -> Mapping[str, str]:
    """Returns the symbols of first dimensions by the inputs' names.

    Raises:
        PipelineError: The attribute is not a dictionary of texts.
    """
    return texts_by_name(module, BATCH, "symbols by input")


def texts_by_name(module: ModuleOp, fact: Fact[Mapping[str, str]], holds: str) -> Mapping[str, str]:
    """Returns a dictionary of texts that a module has as an attribute; empty if it has none.

    Args:
        module: The module.
        fact: What the module records.
        holds: What the dictionary holds, for the error.

    Raises:
        PipelineError: The attribute is not a dictionary of texts.
    """
    given, found = fact.attribute(module), fact.of(module)
    if given is not None and found is None:
        raise PipelineError("the module", f"must have {holds} as {fact}", got=str(given), remedy="remove it")
    return found or {}


def batch_size(module: Operation | None) -> int:
    """Returns the number of samples that the inputs of a module hold: 1 unless a user has bound another."""
    return max(BATCH_SIZE.of(module) or 1, 1)


def mixes_samples(module: ModuleOp) -> str:
    """Returns which operation of the source model mixes the samples of a batch, and how; empty if none is known.

    Raises:
        PipelineError: The attribute is not text.
    """
    return _text(module, MIXES)


def reading_notes(module: ModuleOp) -> ReadingNotes:
    """Returns what a module records about reading samples.

    Raises:
        PipelineError: An attribute is not text.
    """
    return ReadingNotes(_text(module, PREPROCESS), _text(module, DTYPE))


def _text(module: ModuleOp, fact: Fact[str]) -> str:
    given, text = fact.attribute(module), fact.of(module)
    if given is not None and text is None:
        raise PipelineError("the module", f"must have a text as {fact}", got=str(given), remedy="remove it")
    return text or ""


def note_reading(module: ModuleOp, notes: ReadingNotes) -> None:
    """Records how samples are read; empty texts leave the module as it is."""
    for fact, text in ((PREPROCESS, notes.preprocess), (DTYPE, notes.dtype)):
        if text:
            fact.put(module, text)


@dataclass(frozen=True)
class InputNotes:
    """What a module records about its inputs, for exporters.

    symbols  the symbols of first dimensions, by the inputs' names
    mixes    which operation of the source model mixes the samples of a batch; empty if none is known
    reading  how samples are read
    """

    symbols: Mapping[str, str]
    mixes: str
    reading: ReadingNotes

    @staticmethod
    def of(module: Operation | None) -> "InputNotes":
        """Returns the notes of a module, or of none."""
        module = module if isinstance(module, ModuleOp) else ModuleOp([])
        return InputNotes(batch_symbols(module), mixes_samples(module), reading_notes(module))

    def stays(self, path: object, reason: str) -> str:
        """Returns the text of a warning that the batch of an exported file stays 1."""
        return f"the batch of {path} stays 1, not {', '.join(dict.fromkeys(self.symbols.values()))}: {reason}"
