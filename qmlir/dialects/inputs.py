"""What a module records about its inputs: symbols of their first dimensions, and how samples are read from files.

    module attributes {qmlir.batch = {image = "N"}, qmlir.preprocess = "scale=0.00392157", qmlir.dtype = "uint8"} {…}

These are facts for people and for later commands; they do not change what the network computes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from qmlir.errors import PipelineError
from qmlir.ir.reading import ReadingNotes

BATCH = "qmlir.batch"
"""The attribute key, on a module, of the symbols that first dimensions of inputs had in the source model, by input.

Such a dimension is 1 in the module, and can become symbolic again in an exported file.
"""

BATCH_SIZE = "qmlir.batch_size"
"""The attribute key, on a module, of the number of samples that a user has bound the first dimensions of inputs to.

Ranges that are learned on such a module are those of any batch.
"""

MIXES = "qmlir.mixes_samples"
"""The attribute key, on a module for one sample, of the operation of the source model that mixes samples of a batch.

Such an operation may do nothing on one sample, as a sum over the batch does, and be gone from the module.
"""

PREPROCESS = "qmlir.preprocess"
"""The attribute key, on a module, of the options that say how pictures become inputs."""

DTYPE = "qmlir.dtype"
"""The attribute key, on a module, of the element type in which raw files store inputs."""


def batch_symbols(module: ModuleOp) -> dict[str, str]:
    """Returns the symbols of first dimensions by the inputs' names.

    Raises:
        PipelineError: The attribute is not a dictionary of texts.
    """
    return texts_by_name(module, BATCH, "symbols by input")


def texts_by_name(module: ModuleOp, key: str, holds: str) -> dict[str, str]:
    """Returns a dictionary of texts that a module has as an attribute; empty if it has none.

    Args:
        module: The module.
        key: The attribute's key.
        holds: What the dictionary holds, for the error.

    Raises:
        PipelineError: The attribute is not a dictionary of texts.
    """
    given = module.attributes.get(key)
    entries: Mapping[str, Attribute] = given.data if isinstance(given, DictionaryAttr) else {}
    found = {name: text.data for name, text in entries.items() if isinstance(text, StringAttr)}
    if len(found) != len(entries) or not isinstance(given, DictionaryAttr | None):
        raise PipelineError("the module", f"must have {holds} as {key}", got=str(given), remedy="remove it")
    return found


def batch_size(module: Operation | None) -> int:
    """Returns the number of samples that the inputs of a module hold: 1 unless a user has bound another."""
    given = module.attributes.get(BATCH_SIZE) if module is not None else None
    return given.value.data if isinstance(given, IntegerAttr) and given.value.data > 0 else 1


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


def _text(module: ModuleOp, key: str) -> str:
    given = module.attributes.get(key, StringAttr(""))
    if not isinstance(given, StringAttr):
        raise PipelineError("the module", f"must have a text as {key}", got=str(given), remedy="remove it")
    return given.data


def note_reading(module: ModuleOp, notes: ReadingNotes) -> None:
    """Records how samples are read; empty texts leave the module as it is."""
    for key, text in ((PREPROCESS, notes.preprocess), (DTYPE, notes.dtype)):
        if text:
            module.attributes[key] = StringAttr(text)


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
