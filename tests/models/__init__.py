"""Snapshots for tests: `SCENES` is the demo's VSE++ of seed 0, which knows the built-in world."""

from pathlib import Path

SCENES = Path(__file__).parent / "scenes"
