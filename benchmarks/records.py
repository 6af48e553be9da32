"""Writes what a benchmark measured, with the hardware, the versions and the commit behind it."""

import datetime
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

RECORDS = Path(__file__).parent / "records"


def write_record(script: Path, measured: dict[str, Any], packages: tuple[str, ...] = ()) -> Path:
    """records/<date>-<name>/record.json, or <date>-<name>-gpu where there is one."""
    device = "-gpu" if torch.cuda.is_available() else ""
    folder = RECORDS / f"{datetime.date.today()}-{script.stem}{device}"
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "command": f"python benchmarks/{script.name}",
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed_since": bool(_git("status", "--porcelain", "vsepp", "benchmarks/*.py")),
        "hardware": f"{_processor()}, {os.cpu_count()} cores{_gpu()}",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", *packages) if _is_there(name)},
        },
        "measured": measured,
    }
    file = folder / "record.json"
    file.write_text(json.dumps(record, indent=2) + "\n")
    return file


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, cwd=RECORDS.parent)
    return done.stdout.strip()


def _is_there(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _gpu() -> str:
    return f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
