"""What a run leaves in its folder: metrics, the best snapshot, a state to resume from, and why it was stopped."""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from vsepp.devices import ALONE, Processes
from vsepp.encoders.architecture import CONFIG
from vsepp.errors import WrongRequest
from vsepp.evaluation.behaviour import Behaviour
from vsepp.evaluation.retrieval import Retrieval
from vsepp.experiments.metrics import METRICS
from vsepp.experiments.progress.health import STOPPED, Stopped
from vsepp.experiments.progress.state import read_state, restore_state, save_state
from vsepp.experiments.provenance import differences
from vsepp.experiments.recipe import Recipe
from vsepp.snapshots.snapshot import Snapshot
from vsepp.training.averaging import AveragedWeights
from vsepp.training.loop import Epoch, Step

if TYPE_CHECKING:
    from vsepp.experiments.run import Setup

STATE = "resume.state"
OFTEN = 10  # steps between two losses that are written down: reading one waits for the device


@dataclass(frozen=True)
class Run:
    """A training: its folder, and what its best epoch scored in validation."""

    folder: Path
    epoch: int
    validation: Retrieval


# differs from the release: no validation loss, in which the captions of an image would be negatives
class MetricsLog:
    """metrics.jsonl and TensorBoard events; a resumed run continues both."""

    def __init__(self, folder: Path, batch_size: int, epochs_done: int = 0) -> None:
        self.folder = folder
        self.batch_size = batch_size
        self.epochs_done = epochs_done
        self._steps = 0

    def __enter__(self) -> "MetricsLog":
        from torch.utils.tensorboard import SummaryWriter

        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / METRICS
        kept = (
            file.read_text().splitlines(keepends=True)[: self.epochs_done] if file.exists() else []
        )
        self._steps = sum(json.loads(line)["num_steps"] for line in kept)
        self._lines = file.open("w", encoding="utf-8")
        self._lines.writelines(kept)
        self._lines.flush()
        self._board = SummaryWriter(self.folder, purge_step=self._steps + 1 if kept else None)
        return self

    def __exit__(self, *reason: object) -> None:
        self._lines.close()
        self._board.close()

    def step(self, step: Step) -> None:
        before = self._steps
        self._steps += -(-step.num_pairs // self.batch_size)  # it may stand for several batches
        if self._steps // OFTEN > before // OFTEN:
            self._board.add_scalar("train/loss", step.loss.item(), self._steps)

    def epoch(
        self,
        epoch: Epoch,
        num_steps: int,
        result: Retrieval,
        is_best: bool,
        behaviour: Behaviour | None = None,
    ) -> None:
        line = {
            **asdict(epoch),
            "num_steps": num_steps,
            "validation": result.as_dict(),
            "best": is_best,
        }
        if behaviour is not None:
            line["behaviour"] = asdict(behaviour)
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
        self._board.add_scalar("train/epoch_loss", epoch.loss, self._steps)
        self._board.add_scalar("train/learning_rate", epoch.learning_rate, self._steps)
        self._board.add_scalar("validation/rsum", result.rsum, self._steps)
        for direction in ("captions", "images"):
            for name, value in asdict(getattr(result, direction)).items():
                self._board.add_scalar(f"validation/{direction}/{name}", value, self._steps)


class Keeper:
    """Writes the snapshot of the best epoch and, every now and then, the state of the run."""

    def __init__(
        self,
        recipe: Recipe,
        notes: dict[str, Any],
        setup: "Setup",
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
        self.health = (0.0, 0)  # as `check_health` found it last
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

    def begin(self) -> None:
        """An empty state before the first snapshot: one without a state is that of a finished run."""
        self.into.mkdir(parents=True, exist_ok=True)
        (self.into / STATE).write_bytes(b"")

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
            "health": self.health,
            "epoch": epoch.number,
            "best_epoch": self.best.epoch,
            "best": self.best.validation.as_dict(),
        }
        save_state(self.into / STATE, self.setup.model, self.optimizer, facts, self.average)
        self._next_state = time.monotonic() + self.recipe.save_every
        return self.best

    def add_graphs(self) -> None:
        """They take seconds to export, so only the snapshot that is kept gets them."""
        graphs, half, int8 = self.recipe.graphs, self.recipe.half, self.recipe.int8
        if self.best is not None and (graphs or half or int8 != "none"):
            Snapshot.load(self.into).save(self.into, graphs, half, int8)

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
                f"{self.into} cannot be resumed: an older vsepp started it, and did not record its "
                "data. Start again in another folder (--into)."
            )
        changed = differences(before, now)
        if changed:
            raise WrongRequest(
                f"{self.into} cannot be resumed because something changed: {'; '.join(changed)}. "
                "Change it back, or start again in another folder (--into)."
            )


def _merit(result: Retrieval) -> tuple[float, float]:
    """To compare epochs by; rounded, as equal recalls may add up to sums that differ in the last digit."""
    ranks = result.captions.mean_rank + result.images.mean_rank
    return round(result.rsum, 6), -round(ranks, 6)


def has_something_to_resume(into: Path, resume: bool) -> bool:
    """Whether there is a killed run to resume; a folder with a finished snapshot is refused."""
    state = into / STATE
    if (into / CONFIG).exists() and not (resume and state.exists()):
        advice = "Continue it with --resume" if state.exists() else "Its run is finished"
        raise WrongRequest(f"{into} already contains a snapshot. {advice}, or use another folder.")
    # An empty one is of a run that was killed before its first epoch was saved: it starts again.
    return resume and state.exists() and state.stat().st_size > 0


def refuse_stopped(folder: Path, of_run: dict[str, Any], health: str) -> None:
    """Refuse to repeat a run that was stopped, unless its settings have changed or it should only warn."""
    file = folder / STOPPED
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        if health == "stop" and before["fingerprint"] == of_run:
            raise Stopped(before["message"], before["reason"], folder)
        file.unlink()
