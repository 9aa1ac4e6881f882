"""Makes text from a user's files safe for a terminal and for one paragraph.

A name in a model may hold anything: escape sequences that repaint a terminal, marks that change the direction of
writing, a line break that starts a second "error:", or ten million letters. The printed text holds printable characters
only; all other characters are written as escapes, as in Python's strings.
"""

LONGEST = 400
"""The most characters of one name or message; the middle of a longer text is left out."""


def printable(text: str, *, longest: int = LONGEST) -> str:
    """Returns the text with escapes for unprintable characters, and without its middle if it is too long."""
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]} … {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
