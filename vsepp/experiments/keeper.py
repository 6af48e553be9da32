"""Keeps what a run must not lose: the best snapshot, and its state to resume from."""

import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vsepp.devices import ALONE, Processes, generator_states, restore_generators
from vsepp.encoders.architecture import CONFIG
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import Retrieval
from vsepp.experiments.provenance import differences
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.setup import Setup
from vsepp.pickles import read_torch_file, reading
from vsepp.snapshots.snapshot import Snapshot
from vsepp.training.loop import AveragedWeights, Epoch

STATE = "resume.state"


@dataclass(frozen=True)
class Run:
    """A training: its folder, and what its best epoch scored in validation."""

    folder: Path
    epoch: int
    validation: Retrieval


class Keeper:
    """Writes the snapshot of the best epoch and, every now and then, the state of the run."""

    def __init__(
        self,
        recipe: Recipe,
        notes: dict[str, Any],
        setup: Setup,
        optimizer: torch.optim.Optimizer,
        average: AveragedWeights | None,
        into: Path,
    ) -> None:
        self.recipe = recipe
        self.notes = notes
        self.setup = setup
        self.optimizer = optimizer
        self.average = average
        self.into = into
        self.best: Run | None = None
        self.health = (0.0, 0)  # of a run that goes on
        self._next_state = 0.0

    def resume(self, processes: Processes = ALONE) -> int:
        """Restore the state of a killed run; the number of epochs that it has done.

        The first process reads it for all: the others need not see its disk.
        """
        content = processes.as_first(lambda: read_state(self.into / STATE))
        self._check_that_nothing_changed(content["facts"])
        facts = restore_state(content, self.setup.model, self.optimizer, self.average)
        self.health = facts["health"]
        self.best = Run(self.into, facts["best_epoch"], Retrieval.from_dict(facts["best"]))
        return int(facts["epoch"])

    def model_to_keep(self) -> AbstractContextManager[None]:
        """Inside, the model has the weights that are scored and kept: their average, if there is one."""
        return self.average.in_model() if self.average else nullcontext()

    def is_best(self, result: Retrieval) -> bool:
        """The highest recall sum; of equal ones, the lower mean ranks; of equal ones, the last."""
        # differs from the release: it keeps the first of equal ones, which in a small collection,
        # where all epochs may have the same recalls, is the one that has learned least
        return self.best is None or _merit(result) >= _merit(self.best.validation)

    def keep(self, epoch: Epoch, result: Retrieval, health: tuple[float, int] = (0.0, 0)) -> Run:
        """The snapshot first: a state never points at an epoch whose snapshot is not there."""
        if self.is_best(result):
            self.best = Run(self.into, epoch.number, result)
            with self.model_to_keep():
                self._snapshot(self.best).save(self.into, graphs=False)
        assert self.best is not None
        if time.monotonic() < self._next_state:
            return self.best
        facts = {
            "fingerprint": self.notes["fingerprint"],
            "health": health,
            "epoch": epoch.number,
            "best_epoch": self.best.epoch,
            "best": self.best.validation.as_dict(),
        }
        save_state(self.into / STATE, self.setup.model, self.optimizer, facts, self.average)
        self._next_state = time.monotonic() + self.recipe.save_every
        return self.best

    def add_graphs(self) -> None:
        """They take seconds to export, so only the snapshot that is kept gets them."""
        graphs, half = self.recipe.graphs, self.recipe.half
        if self.best is not None and (graphs or half):
            Snapshot.load(self.into).save(self.into, graphs, half)

    def advice(self) -> str:
        if self.best is None:
            return "No epoch has ended yet."
        return (
            f"The snapshot of epoch {self.best.epoch} is good; continue from there with --resume."
        )

    def finish(self) -> Run:
        assert self.best is not None  # there was at least one epoch
        self.add_graphs()
        (self.into / STATE).unlink(missing_ok=True)
        return self.best

    def _snapshot(self, best: Run) -> Snapshot:
        notes = {
            "epoch": best.epoch,
            "validation_rsum": round(best.validation.rsum, 1),
            "recipe": self.recipe.as_dict(),
        }
        setup = self.setup
        return Snapshot(setup.model, setup.vocabulary, setup.architecture, self.notes | notes)

    def _check_that_nothing_changed(self, facts: dict[str, Any]) -> None:
        before, now = facts.get("fingerprint"), self.notes["fingerprint"]
        if before is None:
            raise WrongRequest(
                f"{self.into} cannot be resumed: an older vsepp began it, and did not write down on "
                "which data. Begin anew in another folder (--into)."
            )
        changed = differences(before, now)
        if changed:
            raise WrongRequest(
                f"{self.into} cannot be resumed, something changed: {'; '.join(changed)}. "
                "Change it back, or begin anew in another folder (--into)."
            )


def _merit(result: Retrieval) -> tuple[float, float]:
    """To compare epochs by; rounded, as equal recalls may add up to sums that differ in the last digit."""
    ranks = result.captions.mean_rank + result.images.mean_rank
    return round(result.rsum, 6), -round(ranks, 6)


def has_something_to_resume(into: Path, resume: bool) -> bool:
    """Whether a killed run is to go on here; a folder with a snapshot is never written over."""
    was_killed = (into / STATE).exists()
    if (into / CONFIG).exists() and not (resume and was_killed):
        advice = "Go on with --resume." if was_killed else "Its run is finished."
        raise WrongRequest(f"{into} holds a snapshot already. {advice} Or take another folder.")
    return resume and was_killed


def save_state(
    file: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    facts: dict[str, Any],
    average: AveragedWeights | None = None,
) -> None:
    """Weights and their average, the optimiser's moments, the generators, and plain facts."""
    # differs from the release: its checkpoints go on with the weights alone
    content = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        **generator_states(),
        "average": average.weights if average else [],
        "facts": facts,
    }
    draft = file.with_name(f".{file.name}.draft")
    try:
        with draft.open("wb") as stream:
            torch.save(content, stream)
            stream.flush()
            os.fsync(stream.fileno())  # on the disk before it takes the old one's place
    except RuntimeError as error:  # torch's word for a disk that is full
        draft.unlink(missing_ok=True)
        raise OSError(f"{file} could not be written ({str(error).splitlines()[0]})") from error
    draft.replace(file)


def read_state(file: Path) -> dict[str, Any]:
    with reading(file, "the state of a run, by vsepp train") as stream:
        content: dict[str, Any] = read_torch_file(stream)
    return content


def restore_state(
    content: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: AveragedWeights | None = None,
) -> dict[str, Any]:
    """Restore what `save_state` saved; returns the facts."""
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    if average:
        for weight, before in zip(average.weights, content["average"], strict=True):
            weight.copy_(before)
    restore_generators(content)
    facts: dict[str, Any] = content["facts"]
    return facts
