"""Standard output that is full, closed or no longer read, and standard error that cannot be written to.

A command whose text cannot be written fails with one sentence. If the reader has closed the pipe, as `head` does, the
command ends without a word. Messages on standard error are lost where nobody can read them; the exit status stays.
"""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from qmlir.errors import FileError

FAILED = 1
"""The exit status of a command whose text could not be written, or was not read to its end."""


class _ReaderLeft(BaseException):
    """Raised when the reader of standard output has closed the pipe; no handler of errors catches it."""


def with_standard_streams(command: Callable[[], int]) -> int:
    """Runs a command whose standard output and standard error may be unwritable, and returns its exit status."""
    try:
        with _opened(), redirect_stderr(cast(TextIO, _Errors(sys.stderr))), _checked_output():
            return command()
    except _ReaderLeft:
        return FAILED
    except FileError as error:
        _Errors(sys.stderr).write(f"error: {error}\n")
        return FAILED


@contextmanager
def _opened() -> Generator[None]:
    """Opens the standard streams that were closed when the process started, for reading only, so that writing fails.

    Otherwise the next file that is opened would take the place of the closed stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _reopen(number, os.O_RDONLY)
            setattr(sys, name, open(number, "w" if number else "r", 1, encoding="utf-8", closefd=False))
    yield


def _reopen(number: int, access: int) -> None:
    """Makes a descriptor one of the null device."""
    opened = os.open(os.devnull, access)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


@contextmanager
def _checked_output() -> Generator[None]:
    """Makes failures of standard output within the block, and of its text at the end, errors of the command.

    Raises:
        FileError: The text cannot be written.
        _ReaderLeft: The reader of the text has closed the pipe.
    """
    stream = sys.stdout
    output = _Output(stream)
    with redirect_stdout(cast(TextIO, output)):
        try:
            yield
        finally:
            output.flush()


class _Stream:
    """A text stream whose failures are handled; for everything else, it is the stream itself."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes text, with escapes for characters that the stream's encoding lacks."""
        try:
            self._handling(lambda: self._stream.write(text))
        except UnicodeEncodeError:
            encoding = self._stream.encoding
            known = text.encode(encoding, "backslashreplace").decode(encoding)
            self._handling(lambda: self._stream.write(known))
        return len(text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        self._handling(self._stream.flush)

    def _handling(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            self._give_up()
            self._failed(error)

    def _give_up(self) -> None:
        """Sends the text that could not be written, and everything behind it, to the null device."""
        try:
            number = self._stream.fileno()
        except (OSError, ValueError):  # a stream of a program that runs this command by itself
            return
        _reopen(number, os.O_WRONLY)

    def _failed(self, error: OSError) -> None:
        raise NotImplementedError


class _Output(_Stream):
    def _failed(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            raise _ReaderLeft from None
        raise FileError("standard output", "must be writable", got=error) from None


class _Errors(_Stream):
    def _failed(self, error: OSError) -> None:
        """Leaves the message out: there is no other place for it."""
