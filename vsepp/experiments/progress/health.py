"""Stops a run that has diverged or collapsed, or warns, with the command that avoids it."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from vsepp.errors import WorkFailed
from vsepp.evaluation.collapse import has_collapsed, rsum_by_chance
from vsepp.experiments.recipe import PhaseKeys, Recipe
from vsepp.training.loop import Epoch

State = tuple[
    float, int
]  # the recall to beat, and for how many steps the model has been on one point
STOPPED = "stopped.json"
STUCK = 500  # steps; a young model may lie on one point for a while, and leave it
RISING = 1.05  # times the recall to beat: vectors fall into order, and such a model has left before
NEAR_CHANCE = 4  # times it: what finds more has learned, however close its vectors lie


class Stopped(WorkFailed):
    """A run was stopped because its model has diverged or collapsed; `reason` says why in a few words."""

    def __init__(self, message: str, reason: str, folder: Path = Path()) -> None:
        super().__init__(message)
        self.reason = reason
        self.folder = folder  # of the run, with the best model that it had

    def write(self, folder: Path, of_run: dict[str, Any]) -> None:
        self.folder = folder
        content = {"message": str(self), "reason": self.reason, "fingerprint": of_run}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STOPPED).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def check_health(
    recipe: Recipe,
    before: State,
    epoch: Epoch,
    num_steps: int,
    images: Tensor,
    captions: Tensor,
    rsum: float,
    warn: Callable[[str], None] = lambda text: None,
) -> State:
    """Raises when the model has diverged or collapsed, or warns; returns the state for the next epoch.

    `images` and `captions` are the vectors of the validation split, and `rsum` its recall.
    """
    if not math.isfinite(epoch.loss):
        raise _diverged(recipe, epoch, "the loss")
    if not _all_finite((images, captions)):
        raise _diverged(recipe, epoch, "a vector of the validation split")
    to_beat, steps_on_one_point = before
    loss = recipe.phases[epoch.phase - 1].loss
    if loss == "sum_of_hinges" or not has_collapsed(images, captions):
        return 0.0, 0
    if rsum > NEAR_CHANCE * rsum_by_chance(len(images)) or rsum > RISING * to_beat:
        # To beat since it lies there: recall may rise in one epoch or little by little.
        return rsum, 0
    now = steps_on_one_point + num_steps
    if now >= STUCK and (recipe.health == "stop" or steps_on_one_point < STUCK):
        message = (
            f"The model has collapsed by epoch {epoch.number}: all images and captions lie "
            f"on one point, and {loss} is {epoch.loss:.3f}. To continue anyway: "
            f"--set health=warn. {_advice(epoch, recipe)}"
        )
        if recipe.health == "stop":
            raise Stopped(message, f"collapsed at epoch {epoch.number}")
        warn(message)
    return to_beat, now


def check_weights(recipe: Recipe, epoch: Epoch, weights: Iterable[Tensor]) -> None:
    """Some do not affect the validation split, such as those of words that are not in it."""
    if not _all_finite(weights):
        raise _diverged(recipe, epoch, "a weight")


def _diverged(recipe: Recipe, epoch: Epoch, what: str) -> Stopped:
    """Whatever `health` says: NaN never becomes a number again."""
    return Stopped(
        f"{what[0].upper()}{what[1:]} is NaN or infinite after epoch {epoch.number}: the learning "
        f"rate is too high. Train again with a lower one:\n  {_slower(epoch, recipe)}",
        f"{what} was NaN or infinite in epoch {epoch.number}",
    )


def _all_finite(tensors: Iterable[Tensor]) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def _advice(epoch: Epoch, recipe: Recipe) -> str:
    if recipe.phases[0].epochs > 0 and recipe.phases[0].loss == "sum_of_hinges":
        return f"Train again with a lower learning rate:\n  {_slower(epoch, recipe)}"
    return f"Start with the sum of hinges:\n  {_easier(recipe)}"


def _slower(epoch: Epoch, recipe: Recipe) -> str:
    phases = [
        replace(phase, learning_rate=phase.learning_rate / 10) if n >= epoch.phase - 1 else phase
        for n, phase in enumerate(recipe.phases)
    ]
    return _as_change(phases)


def _easier(recipe: Recipe) -> str:
    phases = [phase for phase in recipe.phases if phase.epochs > 0]
    rate = min(phases[0].learning_rate, 1e-3)
    gentle = [replace(phase, learning_rate=min(phase.learning_rate, rate / 2)) for phase in phases]
    return _as_change([PhaseKeys(5, rate, "sum_of_hinges"), *gentle])


def _as_change(phases: list[PhaseKeys]) -> str:
    tables = (
        ", ".join(f"{key} = {json.dumps(value)}" for key, value in asdict(phase).items())
        for phase in phases
    )
    return "--set 'phases=[" + ", ".join(f"{{{table}}}" for table in tables) + "]'"
