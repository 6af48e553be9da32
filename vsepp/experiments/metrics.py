"""Reads metrics.jsonl, in which a run wrote down its epochs."""

import json
from collections.abc import Sequence
from pathlib import Path

from vsepp.errors import WrongRequest
from vsepp.evaluation.behaviour import Behaviour
from vsepp.evaluation.figures.curves import Point
from vsepp.evaluation.retrieval import Retrieval

METRICS = "metrics.jsonl"


def read_metrics(folder: Path, losses: Sequence[str] = ()) -> list[Point]:
    """What a run wrote down, epoch by epoch; `losses` names the loss of each phase, where known."""
    file = folder / METRICS
    if not file.is_file():
        raise WrongRequest(f"{folder} is not a run: it has no {METRICS}. `vsepp train` writes one.")
    points: list[Point] = []
    for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            line = json.loads(text)
            phase, seconds = line["phase"], points[-1].seconds if points else 0.0
            behaviour = line.get("behaviour")  # runs of older versions have none
            points.append(
                Point(
                    line["number"],
                    seconds + line["seconds"],
                    line["loss"],
                    losses[phase - 1] if phase <= len(losses) else "",
                    Retrieval.from_dict(line["validation"]),
                    Behaviour.from_dict(behaviour) if behaviour else None,
                )
            )
        except (ValueError, KeyError, TypeError) as error:
            raise WrongRequest(
                f"{file}, line {number} is not an epoch of a run ({error!r})."
            ) from error
    if not points:
        raise WrongRequest(f"{file} is empty: no epoch of the run has ended yet.")
    return points
