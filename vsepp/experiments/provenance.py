"""Under which a result was made: version, commit, hardware, libraries, date."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vsepp import __version__
from vsepp.data.captioned import CaptionedImages

ROOT = Path(__file__).parents[2]
CODE = ("vsepp", "results/*.py", "benchmarks/*.py")
LIBRARIES = ("torch", "torchvision", "timm", "tokenizers", "numpy", "pillow")


def circumstances(packages: Sequence[str] = LIBRARIES) -> dict[str, Any]:
    """The commit is empty where the code runs without its history."""
    commit = _git("rev-parse", "--short", "HEAD") if (ROOT / ".git").exists() else ""
    return {
        "vsepp": __version__,
        "commit": commit,
        # Whether the code is not that of the commit.
        "changed_since": bool(commit and _git("status", "--porcelain", "--", *CODE)),
        "hardware": f"{_processor()}, {os.cpu_count()} cores{_gpu()}",
        "versions": {"python": platform.python_version()} | _versions(packages),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def notes_of(data: CaptionedImages, of_run: dict[str, Any]) -> dict[str, Any]:
    """What a snapshot says about where it comes from."""
    return {
        "data": data.name,
        "left_out": len(data.left_out),
        "made_by": circumstances(),
        "fingerprint": of_run,
    }


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, cwd=ROOT, timeout=30)
    except (OSError, subprocess.TimeoutExpired):  # no git here
        return ""
    return done.stdout.strip()


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _gpu() -> str:
    import torch

    return f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
