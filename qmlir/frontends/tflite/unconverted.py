"""The operators of the schema that have no converter, each with the reason that its `qmlir.opaque` gives."""

from collections.abc import Mapping

STATE = "it reads or writes what lives from call to call"
STRINGS = "it works on strings, for which qmlir has no type"
COMPLEX = "it works on complex numbers, for which qmlir has no type"
RANDOM = "its result is random"
SHAPELESS = "the shape of its result is known only when it runs"
STABLEHLO = "it is of StableHLO; convert the model to TFLite's own operators"
NO_KERNEL = "LiteRT has no kernel for it"

_BY_REASON: Mapping[str, str] = {
    STATE: "CALL_ONCE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT "
    "HASHTABLE_SIZE LSTM RNN SVDF",
    STRINGS: "HASHTABLE_LOOKUP LSH_PROJECTION SKIP_GRAM",
    COMPLEX: "COMPLEX_ABS IMAG REAL RFFT2D",
    RANDOM: "MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM STABLEHLO_RNG_BIT_GENERATOR",
    SHAPELESS: "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 EMBEDDING_LOOKUP_SPARSE",
    NO_KERNEL: "CONCAT_EMBEDDINGS",
    "its weights are sparse": "DENSIFY",
    "it is a part of a model that a delegate has taken": "DELEGATE",
    "it stands for no operator": "PLACEHOLDER_FOR_GREATER_OP_CODES",
    "qmlir has recurrent layers of one direction only": "BIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_RNN",
    "its options are of a kind that qmlir does not read": "DILATE REDUCE_WINDOW",
}

UNCONVERTED: Mapping[str, str] = {o: reason for reason, operators in _BY_REASON.items() for o in operators.split()}
"""Operator → the reason why it has no converter."""


def reason_against(operator: str) -> str:
    """Returns the reason why an operator has no converter."""
    if operator.startswith("STABLEHLO_") and operator not in UNCONVERTED:
        return STABLEHLO
    return UNCONVERTED.get(operator, "qmlir has no converter for it")
