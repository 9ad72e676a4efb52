"""The example of the reference, with the names of this package, prints what the reference says."""

import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).parent.parent / "data"


def test_the_example_of_the_reference_prints_what_the_reference_says():
    done = subprocess.run(
        [sys.executable, "-W", "error", DATA / "plan_and_execute_example.py"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout == (DATA / "plan_and_execute_example.txt").read_text("utf-8")
