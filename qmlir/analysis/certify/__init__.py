"""What the derivation of certificates needs of a network that the artefact does not tell, gathered as plain data.

certificate.py   a network on the qint level, an object file or a device's program, and the certificate of it
meaning.py       the real numbers and functions that integers stand for
machine_code.py  the instructions of functions in LLVM IR and in assembly text

The package `qmlir.checker` derives what certificates state, and nothing here does. docs/certificates.md says what each
field means.
"""

from qmlir.analysis.certify.certificate import (
    certificate_of,
    certificate_of_object,
    certificate_of_program,
    code_of,
    file_hashes,
    is_quantized,
)

__all__ = [
    "certificate_of",
    "certificate_of_object",
    "certificate_of_program",
    "code_of",
    "file_hashes",
    "is_quantized",
]
