"""A wrong name in, the right one proposed: `did you mean "schema"?`.

Every place that looks a user's name up (passes, options, tensors, policies) ends its error with this sentence.
"""

import difflib
from collections.abc import Iterable

_LONGEST = 200
"""Characters of a name that are compared: no name of ours is longer, and the time goes with the square."""


def near_misses(name: str, known: Iterable[str], *, prefix: str = "") -> str | None:
    """The remedy for an unknown `name`: the known names it may have meant, or all of them when they are few.

    Args:
        name: What the user wrote.
        known: What could have been written.
        prefix: Put before each name, as `--` before a flag.

    Returns:
        A clause for the end of an error, or None when nothing is near and there is too much to list.
    """
    names, name = sorted(set(known)), name[:_LONGEST]
    alike = {n: difflib.SequenceMatcher(None, n[:_LONGEST], name).ratio() for n in names}
    best = max(alike.values(), default=0.0)
    # What is clearly less like it than the best is noise: all operations of a dialect have a prefix in common.
    near = sorted((n for n in names if alike[n] >= max(0.6, best - 0.1)), key=lambda n: -alike[n])[:3]
    near += [n for n in names if name and n.startswith(name) and n not in near][: 3 - len(near)]
    if near:
        return "did you mean " + " or ".join(f"{prefix}{n}" for n in near) + "?"
    if 0 < len(names) <= 12:
        return "known: " + ", ".join(f"{prefix}{n}" for n in names)
    return None
