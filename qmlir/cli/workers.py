"""`--jobs`, `--scheduler` and `--worker-memory`: where the work of a command runs, the same for all commands."""

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from qmlir.cli.flags import ArgumentParser
from qmlir.cli.terminal import say
from qmlir.errors import OptionError
from qmlir.settings.fields import WORKERS

if TYPE_CHECKING:
    from qmlir.running.executors import Workers


def add_worker_options(parser: ArgumentParser) -> None:
    """Adds the options that choose workers; results are the same bytes wherever the work runs."""
    with parser.section("where the work runs"):
        parser.add_options(*WORKERS)


def elsewhere(arguments: argparse.Namespace) -> list[tuple[str, object]]:
    """Returns the options that choose workers, each with its value; None if it was not given.

    One job is this process, as without the option.
    """
    jobs = None if arguments.jobs == 1 else arguments.jobs
    return [("--jobs", jobs), ("--scheduler", arguments.scheduler), ("--worker-memory", arguments.worker_memory)]


@contextmanager
def workers_from(arguments: argparse.Namespace) -> "Generator[Workers]":
    """Gives the workers of a command line, and says what they are; closes them at the end.

    Raises:
        OptionError: There are both processes and a scheduler, or no scheduler answers.
    """
    from qmlir.running.executors import workers_of

    if arguments.jobs is not None and arguments.scheduler is not None:
        raise OptionError("--jobs", "must not be given with --scheduler", remedy="drop one of them")
    with workers_of(arguments.scheduler or arguments.jobs, arguments.worker_memory) as workers:
        if workers.elsewhere:
            say(f"on {workers.said}")
        yield workers
