"""Text from a user's files, made safe for a terminal and for one paragraph.

A name in a model may hold anything: escape sequences that repaint a terminal, marks that turn the direction of writing,
a line break that starts a second "error:", or ten million letters. What is shown holds letters, marks and spaces only;
all else is written as an escape, as in Python's strings.
"""

LONGEST = 400
"""The most characters of one name or message; the middle of a longer one is left out."""


def printable(text: str, *, longest: int = LONGEST) -> str:
    """The text with escapes for what cannot be printed, and without its middle if it is long."""
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]} … {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
