"""Options of passes as text: what `--pass-pipeline` reads, and what help texts and a `Pipeline` print."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True)
class OptionInfo:
    """The facts that `--help` prints about an option; `default` is None if the user has to give a value."""

    name: str
    type: str
    default: str | None
    help: str


def value_text(value: object) -> str:
    """Returns a value as the user would write it."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case "" | ():
            return '""'
        case tuple():
            return ",".join(value_text(v) for v in cast("tuple[object, ...]", value))
        case _:
            return str(value)


def pass_text(name: str, options: Mapping[str, object]) -> str:
    """Returns a pass as an element of `--pass-pipeline`: `quantize{schema=symmetric data="my samples.npy"}`."""
    shown = " ".join(f"{key.replace('_', '-')}={_quoted(value_text(value))}" for key, value in options.items())
    return f"{name}{{{shown}}}" if shown else name


def _quoted(text: str) -> str:
    """Returns a value in quotes, or in braces if it holds quotes, where it would end early without them."""
    if text == '""' or not any(c.isspace() or c in "\"'{}(),=" for c in text):
        return text
    return f'"{text}"' if '"' not in text else f"'{text}'" if "'" not in text else f"{{{text}}}"
