"""The error for what cannot be proved about an artefact."""


class UnprovenError(Exception):
    """Raised for an operation that has no rule, or whose integers may not fit their widths."""
