"""The entry of the GGUF frontend: a file → a module in nn.

A file holds weights and settings. The network is one function for decoding and for prefill, which takes `rows` tokens
at consecutive places and keeps the keys and values of `context` places:

    arguments   token i64 [rows], pos i64 [rows]; the states k0, v0, k1, … f32 [kv_heads, context, head]
    results     logits f32 [rows, vocabulary]; k0_out, v0_out, …, the states' values in the next call

`rows` and `context` are sizes that a user binds. Tokens are numbers: the tokenizer is the user's. With more
`positions` than `context`, the caches are rings: a token takes the memory of the one that is `context` places older.
"""

from collections.abc import Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from qmlir.errors import OptionError, near_misses
from qmlir.frontends.gguf.network import Network, Sizes
from qmlir.frontends.gguf.reader import read_file
from qmlir.frontends.gguf.settings import LARGEST, Settings
from qmlir.frontends.gguf.tensors import check_tensors

ROWS, CONTEXT = 1, 512
"""The default number of tokens in a call, and the default of places, unless the model was trained for fewer."""


def load_gguf(path: Path, *, bind: Mapping[str, int] | None = None) -> ModuleOp:
    """Imports a GGUF file.

    Args:
        path: The file.
        bind: `rows`, the tokens of a call; `context`, the places whose keys and values are kept; `positions`, the
            places that tokens may have; `window`, how many places a token sees.

    Returns:
        A module in the nn dialect, with the caches as states.

    Raises:
        FileError: The file is damaged, or holds another network than one of the Llama family.
        OptionError: `bind` names another size, or a size does not fit the network.
    """
    file = read_file(path)
    settings = Settings.of(file)
    sizes = _sizes(settings, bind or {})
    check_tensors(file, settings)
    return Network(file, settings, sizes).build()


NAMES = ("rows", "context", "positions", "window")
"""The sizes that a user may bind."""


def _sizes(settings: Settings, bind: Mapping[str, int]) -> Sizes:
    """Returns the sizes of the network."""
    for name in bind:
        if name not in NAMES:
            remedy = near_misses(name, NAMES)
            raise OptionError(f"bind {name}", f"must be {', '.join(NAMES[:-1])} or {NAMES[-1]}", remedy=remedy)
    most = settings.context
    rows, context = bind.get("rows", ROWS), bind.get("context", min(CONTEXT, most or CONTEXT))
    if context < 1 or (most is not None and context > most):
        need = "must be a positive number" if most is None else f"must be 1 to {most}, as the model was trained"
        raise OptionError("bind context", need, got=str(context))
    if not 1 <= rows <= context:
        raise OptionError("bind rows", f"must be 1 to {context}, the places of the context", got=str(rows))
    positions = bind.get("positions", context)
    if not context <= positions <= LARGEST:
        need = f"must be {context}, the places of the context, to {LARGEST}"
        raise OptionError("bind positions", need, got=str(positions))
    return Sizes(rows, context, positions, _window(settings.wide.window, rows, context, positions, bind.get("window")))


def _window(own: int | None, rows: int, context: int, positions: int, bound: int | None) -> int:
    """Returns how many places a token sees.

    Args:
        own: What the model was trained for, in the layers that see most; None for all places.
        rows: The tokens of a call.
        context: The places of the cache.
        positions: The places that tokens may have.
        bound: What a user binds; None for as many as the model was trained for and the cache keeps.
    """
    ring = positions > context
    kept = context - rows + 1 if ring else context  # a call overwrites the oldest places before its tokens see them
    most = min(kept, own or kept)
    if bound is not None and not 1 <= bound <= most:
        why = f"a window of {own}, as the model was trained" if own == most else f"{most} places that a call leaves"
        raise OptionError("bind window", f"must be 1 to {most}: {why}", got=str(bound))
    if ring and bound is None and own is not None and own > kept:
        need = f"must be {own + rows - 1} or more: the window of {own} places and the other rows of a call"
        remedy = f"or bind window={kept}, so that a token sees fewer places than the model was trained for"
        raise OptionError("bind context", need, got=str(context), remedy=remedy)
    return most if bound is None else bound
