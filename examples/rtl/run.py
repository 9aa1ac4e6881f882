"""Runs bench.py on a folder of vectors: `python examples/rtl/run.py vectors --simulator verilator`."""

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

from cocotb.runner import get_runner

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Builds the unit and runs the bench; returns 1 if a command differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, help="what `qmlir run --vectors` has written")
    parser.add_argument("--simulator", choices=("verilator", "icarus"), default="verilator")
    parser.add_argument("--unit", type=Path, default=HERE / "unit.v", help="the Verilog to build")
    parser.add_argument("--build", type=Path, default=Path("build/rtl"), help="the folder of what is built")
    arguments = parser.parse_args()
    runner = get_runner(arguments.simulator)
    options = ["-Wno-fatal", "-Wno-WIDTH", "-Wno-BLKSEQ", "--timing"] if arguments.simulator == "verilator" else []
    build = arguments.build / arguments.simulator
    runner.build(
        verilog_sources=[arguments.unit.resolve()],
        hdl_toplevel="unit",
        build_dir=build,
        build_args=options,
        always=True,
    )
    answer = build.resolve() / "answer.txt"
    answer.unlink(missing_ok=True)
    paths = [str(HERE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {"VECTORS": str(arguments.vectors.resolve()), "ANSWER": str(answer)}
    with suppress(SystemExit):  # cocotb's, within a test, where the bench fails; the answer says it
        runner.test(
            hdl_toplevel="unit",
            test_module="bench",
            build_dir=build,
            test_dir=build,
            extra_env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
    said = answer.read_text(encoding="utf-8").strip() if answer.exists() else "error: the bench ended without an answer"
    print(said)
    return int(said.startswith("error"))


if __name__ == "__main__":
    sys.exit(main())
