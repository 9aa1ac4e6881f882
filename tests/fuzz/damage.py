"""Damage to files of text and to files with text in them: what editors, transport and attackers do to words.

A change takes the text, a source of chance and the good texts, of which it may take words; those to bytes are
`mutations.BYTES`.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

Random = np.random.Generator
Change = Callable[[str, Random, Sequence[str]], str]

LONGEST = 200_000
"""Characters of a word that was repeated."""

_WORDS = re.compile(r"[\w.$-]+|[^\w\s]|\s+")
_NUMBER = re.compile(r"-?[0-9][\w.+-]*")

NUMBERS = (
    *("0", "-1", "1", "3", "-128", "255", "65536", "1048576", "2147483648", "4294967296", "9223372036854775807"),
    *("9223372036854775808", "18446744073709551616", "1e400", "-1e-400", "nan", ".inf", "0x7fc00000", "0b1", "1_0"),
    *("9" * 400, "9" * 5000, "1." + "0" * 5000, "?", "true", "null", "''", "[]", "{}", "1.5", "2024-99-99"),
)
MARKS = ('"', "'", "{", "}", "[", "]", "(", ")", "<", ">", ":", ",", "#", "%", "@", "!", "&a ", "*a", "\t", "\\", "-")
STRANGE = (
    "\x00",
    "\x1b[2J",
    "\x85",
    "\u202e",
    "\ufeff",
    "²",
    "٣",
    "é",
    "\U0001f600",
    "\r",
    "\x0c",
    "//",
    "/*",
    "---\n",
)


def _pick(random: Random, items: Sequence[str]) -> str:
    return items[int(random.integers(len(items)))]


def _spot(text: str, random: Random) -> int:
    return int(random.integers(len(text) + 1))


def _replaced(text: str, pattern: re.Pattern[str], random: Random, by: Callable[[str], str]) -> str:
    """The text with one match of a pattern replaced, near a place of chance."""
    start = _spot(text, random)
    found = pattern.search(text, start) or pattern.search(text)
    return text if found is None else text[: found.start()] + by(found[0]) + text[found.end() :]


def other_word(text: str, random: Random, texts: Sequence[str]) -> str:
    words = [w for w in _WORDS.findall(_pick(random, texts)) if not w.isspace()] or ["x"]
    return _replaced(text, _WORDS, random, lambda _: _pick(random, words))


def other_number(text: str, random: Random, texts: Sequence[str]) -> str:
    return _replaced(text, _NUMBER, random, lambda _: _pick(random, NUMBERS))


def lost_word(text: str, random: Random, texts: Sequence[str]) -> str:
    return _replaced(text, _WORDS, random, lambda _: "")


def lost_mark(text: str, random: Random, texts: Sequence[str]) -> str:
    return _replaced(text, re.compile(r"[\"'{}\[\]()<>:,]"), random, lambda _: "")


def new_mark(text: str, random: Random, texts: Sequence[str]) -> str:
    at = _spot(text, random)
    return text[:at] + _pick(random, MARKS) + text[at:]


def strange_letter(text: str, random: Random, texts: Sequence[str]) -> str:
    at = _spot(text, random)
    return text[:at] + _pick(random, STRANGE) + text[at:]


def nested(text: str, random: Random, texts: Sequence[str]) -> str:
    at, depth = _spot(text, random), int(random.choice([3, 100, 3000]))
    opening, closing = ("([{<"[i := int(random.integers(4))], ")]}>"[i])
    return text[:at] + opening * depth + (closing * depth if random.random() < 0.7 else "") + text[at:]


def repeated_word(text: str, random: Random, texts: Sequence[str]) -> str:
    times = int(random.choice([2, 50, 20_000]))
    return _replaced(text, _WORDS, random, lambda word: word * min(times, max(1, LONGEST // len(word))))


def lines_moved(text: str, random: Random, texts: Sequence[str]) -> str:
    lines = text.splitlines(keepends=True) or [text]
    a, b = (int(i) for i in random.integers(len(lines), size=2))
    match int(random.integers(3)):
        case 0:
            lines[a], lines[b] = lines[b], lines[a]
        case 1:
            lines.insert(a, lines[b])
        case _:
            del lines[a]
    return "".join(lines)


def pieces_joined(text: str, random: Random, texts: Sequence[str]) -> str:
    other = _pick(random, texts)
    return text[: _spot(text, random)] + other[_spot(other, random) :]


CHANGES: tuple[Change, ...] = (
    *(other_word, other_word, other_number, other_number, other_number, lost_word, lost_mark, new_mark),
    *(strange_letter, nested, repeated_word, lines_moved, pieces_joined),
)


def damaged(text: str, random: Random, texts: Sequence[str]) -> tuple[str, str]:
    """A text with one to three changes, and their names."""
    chosen = [CHANGES[int(random.integers(len(CHANGES)))] for _ in range(int(random.choice([1, 1, 2, 3])))]
    for change in chosen:
        text = change(text, random, texts)
    return text, ", ".join(change.__name__ for change in chosen)
