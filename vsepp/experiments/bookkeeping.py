"""What goes on beside the steps of a run: they are shown, epochs are scored, written down and kept."""

from contextlib import ExitStack

import torch
from torch import Tensor

from vsepp.evaluation.behaviour import behaviour
from vsepp.evaluation.retrieval import Retrieval
from vsepp.experiments.health import HealthCheck
from vsepp.experiments.journal import Journal
from vsepp.experiments.keeper import Keeper, Run
from vsepp.experiments.progress import TrainingProgress
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.setup import Setup
from vsepp.training.loop import Epoch, Step


class Bookkeeping:
    """Done by one process, however many train."""

    def __init__(
        self, recipe: Recipe, setup: Setup, keeper: Keeper, epochs_done: int, num_steps: int
    ) -> None:
        self.recipe, self.setup, self.keeper, self.num_steps = recipe, setup, keeper, num_steps
        self.health = HealthCheck(recipe, keeper.health)
        self.journal = Journal(keeper.into, recipe.batch_size, epochs_done)
        num_epochs = sum(phase.epochs for phase in recipe.phases)
        best = keeper.best.validation.rsum if keeper.best else 0.0
        self.progress = TrainingProgress(
            recipe.name, num_epochs, len(setup.learned), epochs_done, best
        )
        self._open = ExitStack()

    def __enter__(self) -> "Bookkeeping":
        with ExitStack() as opening:
            opening.enter_context(self.journal)
            opening.enter_context(self.progress)
            self._open = opening.pop_all()
        return self

    def __exit__(self, *reason: object) -> None:
        self._open.close()

    def step(self, step: Step) -> None:
        self.progress.step(step)
        self.journal.step(step)

    def epoch(self, epoch: Epoch, images: Tensor, captions: Tensor) -> Run:
        """Score the vectors of the validation split; returns the best epoch so far."""
        similarity, owners = (
            self.setup.model.similarity,
            torch.from_numpy(self.setup.validation.image_of_caption),
        )
        result = Retrieval.from_vectors(images, captions, owners, similarity)
        self.health.look(epoch, self.num_steps, images, captions, result.rsum)
        self.health.look_at_weights(epoch, self.setup.model.parameters())
        is_best = self.keeper.is_best(result)
        ways = similarity, self.recipe.loss.margin, self.recipe.batch_size
        seen = behaviour(images, captions, owners, *ways)
        self.journal.epoch(epoch, self.num_steps, result, is_best, seen)
        self.progress.epoch(epoch, result, is_best)
        return self.keeper.keep(epoch, result, self.health.state)
