"""The entry of the GGUF frontend: a file → a module in nn.

A file holds weights and settings. The network is one function for decoding and for prefill, which takes `rows` tokens
at consecutive places and keeps the keys and values of `context` places:

    arguments   token i64 [rows], pos i64 [rows]; the states k0, v0, k1, … f32 [kv_heads, context, head]
    results     logits f32 [rows, vocabulary]; k0_out, v0_out, …, the states' values in the next call

`rows` and `context` are sizes that a user binds. Tokens are numbers: the tokenizer is the user's.
"""

from collections.abc import Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from qmlir.errors import OptionError, near_misses
from qmlir.frontends.gguf.network import Network
from qmlir.frontends.gguf.reader import read_file
from qmlir.frontends.gguf.settings import Settings
from qmlir.frontends.gguf.tensors import check_tensors

ROWS, CONTEXT = 1, 512
"""The default number of tokens in a call, and the default of places, unless the model was trained for fewer."""


def load_gguf(path: Path, *, bind: Mapping[str, int] | None = None) -> ModuleOp:
    """Imports a GGUF file.

    Args:
        path: The file.
        bind: `rows`, the tokens of a call, and `context`, the places whose keys and values are kept.

    Returns:
        A module in the nn dialect, with the caches as states.

    Raises:
        FileError: The file is damaged, or holds another network than one of the Llama family.
        OptionError: `bind` names another size, or a size does not fit the network.
    """
    file = read_file(path)
    settings = Settings.of(file)
    rows, context = _sizes(settings, bind or {})
    check_tensors(file, settings)
    return Network(file, settings, rows, context).build()


def _sizes(settings: Settings, bind: Mapping[str, int]) -> tuple[int, int]:
    """Returns the tokens of a call and the places of the cache."""
    most = settings.context
    sizes = {"rows": ROWS, "context": min(CONTEXT, most or CONTEXT)}
    for name, size in bind.items():
        if name not in sizes:
            raise OptionError(f"bind {name}", "must be rows or context", remedy=near_misses(name, sizes))
        sizes[name] = size
    rows, context = sizes["rows"], sizes["context"]
    if context < 1 or (most is not None and context > most):
        need = "must be a positive number" if most is None else f"must be 1 to {most}, as the model was trained"
        raise OptionError("bind context", need, got=str(context))
    if not 1 <= rows <= context:
        raise OptionError("bind rows", f"must be 1 to {context}, the places of the context", got=str(rows))
    return rows, context
