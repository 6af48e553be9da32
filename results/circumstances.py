"""Under which a run was made: commit, hardware, versions."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import timm
import torch


def circumstances() -> dict[str, Any]:
    """The commit is empty where the code runs without its history."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    said = subprocess.run(git, capture_output=True, text=True, cwd=Path(__file__).parent)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    packages = {"torch": torch.__version__, "timm": timm.__version__}
    return {
        "commit": said.stdout.strip(),
        "hardware": gpu or f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), **packages},
    }
