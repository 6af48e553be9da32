"""Writes what a benchmark measured, with the hardware, the versions and the commit behind it."""

import datetime
import json
from pathlib import Path
from typing import Any

import torch

from vsepp.experiments.provenance import circumstances

RECORDS = Path(__file__).parent / "records"


def write_record(script: Path, measured: dict[str, Any], packages: tuple[str, ...] = ()) -> Path:
    """records/<date>-<name>/record.json, or <date>-<name>-gpu where there is one."""
    device = "-gpu" if torch.cuda.is_available() else ""
    folder = RECORDS / f"{datetime.date.today()}-{script.stem}{device}"
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "command": f"python benchmarks/{script.name}",
        **circumstances(("torch", "numpy", *packages)),
        "measured": measured,
    }
    file = folder / "record.json"
    file.write_text(json.dumps(record, indent=2) + "\n")
    return file
