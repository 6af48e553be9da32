"""Stops a run that has gone wrong, with the command that puts it right."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, replace

from torch import Tensor

from vsepp.errors import WorkFailed
from vsepp.evaluation.collapse import has_collapsed, rsum_by_chance
from vsepp.experiments.recipe import PhaseKeys, Recipe
from vsepp.training.loop import Epoch

STUCK = 500  # steps; a young model may lie on one point for a while, and leave it
RISING = 1.05  # times the recall to beat: vectors fall into order, and such a model has left before
NEAR_CHANCE = 4  # times it: what finds more has learned, however close its vectors lie


class HealthCheck:
    """Looks at every epoch and raises when going on would be in vain."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._steps_on_one_point = 0
        self._to_beat = 0.0

    def look(
        self, epoch: Epoch, num_steps: int, images: Tensor, captions: Tensor, rsum: float
    ) -> None:
        """`images` and `captions` are the vectors of the validation split, and `rsum` its recall."""
        if not math.isfinite(epoch.loss):
            raise self._diverged(epoch, "The loss is")
        if not _all_finite((images, captions)):
            raise self._diverged(epoch, "A vector of the validation split is")
        loss = self.recipe.phases[epoch.phase - 1].loss
        if loss == "sum_of_hinges" or not has_collapsed(images, captions):
            self._to_beat, self._steps_on_one_point = 0.0, 0
        elif rsum > NEAR_CHANCE * rsum_by_chance(len(images)) or rsum > RISING * self._to_beat:
            # To beat since it lies there: recall may rise in one epoch or little by little.
            self._to_beat, self._steps_on_one_point = rsum, 0
        else:
            self._steps_on_one_point += num_steps
        if self._steps_on_one_point >= STUCK:
            raise WorkFailed(
                f"The model has collapsed by epoch {epoch.number}: all pictures and all captions lie "
                f"on one point, and {loss} stands at {epoch.loss:.3f}. {_advice(epoch, self.recipe)}"
            )

    def look_at_weights(self, epoch: Epoch, weights: Iterable[Tensor]) -> None:
        """Some have no say in the validation split, such as those of its missing words."""
        if not _all_finite(weights):
            raise self._diverged(epoch, "A weight is")

    def _diverged(self, epoch: Epoch, what: str) -> WorkFailed:
        return WorkFailed(
            f"{what} not a number after epoch {epoch.number}: the steps were too large. "
            f"Train again with a lower rate:\n  {_slower(epoch, self.recipe)}"
        )


def _all_finite(tensors: Iterable[Tensor]) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def _advice(epoch: Epoch, recipe: Recipe) -> str:
    if recipe.phases[0].epochs > 0 and recipe.phases[0].loss == "sum_of_hinges":
        return f"Train again with a lower rate:\n  {_slower(epoch, recipe)}"
    return f"Let it begin with the sum of hinges:\n  {_easier(recipe)}"


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
