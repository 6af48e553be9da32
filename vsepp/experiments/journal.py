"""What a run writes down: metrics.jsonl and TensorBoard events beside the snapshot."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from vsepp.errors import WrongRequest
from vsepp.evaluation.behaviour import Behaviour
from vsepp.evaluation.figures.curves import Point
from vsepp.evaluation.retrieval import Retrieval
from vsepp.training.loop import Epoch, Step

METRICS = "metrics.jsonl"
OFTEN = 10  # steps between two losses that are written down: reading one waits for the device


# differs from the release: no loss of validation, where five captions of a picture are rivals
class Journal:
    """A line per epoch and a curve per figure; a resumed run goes on where the last one stopped."""

    def __init__(self, folder: Path, batch_size: int, epochs_done: int = 0) -> None:
        self.folder = folder
        self.batch_size = batch_size
        self.epochs_done = epochs_done
        self._steps = 0

    def __enter__(self) -> "Journal":
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
