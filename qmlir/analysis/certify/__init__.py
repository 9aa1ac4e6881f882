"""Certificates: proofs, as plain data, that a network computes on integers only and that no integer overflows.

certificate.py  the certificate of a network: floats at entry and exit, proofs of operations, hashes of constants
intervals.py    the interval of each value, and of the accumulators of each output channel
rounding.py     what requantizations round off, and whether their products fit 64 bits
tables.py       the largest error of tables against the functions that they hold
machine_code.py instructions on floats in LLVM IR and in object files
program.py      the certificate of a device's program
commands.py     the intervals of what its commands compute
contents.py     what the bytes of its memories hold

docs/certificates.md says what each field means. The package `qmlir.checker` derives all of it a second time, on its
own; neither imports the other.
"""

from qmlir.analysis.certify.certificate import (
    FORMAT,
    certificate_of,
    certificate_of_object,
    code_of,
    file_hashes,
    is_quantized,
)
from qmlir.analysis.certify.program import certificate_of_program

__all__ = [
    "FORMAT",
    "certificate_of",
    "certificate_of_object",
    "certificate_of_program",
    "code_of",
    "file_hashes",
    "is_quantized",
]
