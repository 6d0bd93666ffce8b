"""The extension's own tests, in a process of their own: there its parts are registered, and here they are not.

`.ci/run` runs them once more beside the built wheel, in an environment that has never seen the source.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gspn

EXTENSION = Path(__file__).resolve().parents[1] / "extension"


@pytest.mark.slow
def test_the_extension_passes_its_own_tests(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(gspn.__file__).parents[1]), str(EXTENSION)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(EXTENSION / "pyproject.toml")]
    done = subprocess.run(
        [*command, "--rootdir", str(EXTENSION), str(EXTENSION / "tests")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
