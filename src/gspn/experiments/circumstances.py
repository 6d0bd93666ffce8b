"""What was there when something was measured: the commit of the code, versions of packages, the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any


def commit() -> str | None:
    """The commit of the code that is running, if it is a working copy."""
    here = Path(__file__)
    try:
        # Installed inside somebody's repository, we are not a part of it.
        _git(here.parent, "ls-files", "--error-unmatch", here.name)
        return _git(here.parent, "describe", "--always", "--dirty", "--abbrev=12", "--match=") or None
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Of Python and of the packages that decide numbers and times."""
    packages = ("gspn", "numpy", "torch", "torch-geometric", "numba", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Processor, cores and gigabytes of memory, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    tells = "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ())
    return {
        "processor": next(iter(names), platform.processor() or platform.machine()),
        "cores": os.cpu_count(),
        "memory GB": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9) if tells else None,
    }
