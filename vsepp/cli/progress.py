"""Progress of a training: a live line in a terminal, a line per epoch elsewhere."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from vsepp.evaluation.retrieval import Retrieval
from vsepp.training.loop import Epoch, Step

REFRESH = 0.5  # seconds between two updates; reading the loss waits for the device


class TrainingProgress:
    """pairs/s, loss, best recall sum and time left, on standard error."""

    def __init__(self) -> None:
        self.console = Console(file=sys.stderr)

    def begin(
        self, name: str, num_epochs: int, num_pairs: int, epochs_done: int, best_rsum: float
    ) -> None:
        self.name, self.num_epochs, self.best = name, num_epochs, best_rsum
        self.total = (num_epochs - epochs_done) * num_pairs  # of this process, not of earlier ones
        self._started = self._looked = time.perf_counter()
        self._pairs = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self.console,
            transient=True,
        )
        self._task = self._bar.add_task(name, total=self.total, figures="")
        if self.console.is_terminal:
            self._bar.start()

    def end(self) -> None:
        if self.console.is_terminal:
            self._bar.stop()

    def message(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def step(self, step: Step) -> None:
        self._pairs += step.num_pairs
        now = time.perf_counter()
        if not self.console.is_terminal or now - self._looked < REFRESH:
            return
        self._looked = now
        elapsed = now - self._started
        speed = self._pairs / elapsed
        left = (self.total - self._pairs) / speed
        figures = (
            f"epoch {step.epoch}/{self.num_epochs}  loss {step.loss.item():.3f}  "
            f"best rsum {self.best:.1f}  {speed:,.0f} pairs/s  {_clock(left)} left"
        )
        self._bar.update(self._task, completed=self._pairs, figures=figures)

    def epoch(self, epoch: Epoch, result: Retrieval, is_best: bool) -> None:
        self.best = max(self.best, result.rsum)
        left = (time.perf_counter() - self._started) * (self.total / max(1, self._pairs) - 1)
        self.console.print(
            f"{self.name}  epoch {epoch.number}/{self.num_epochs}  loss {epoch.loss:.3f}  "
            f"rsum {result.rsum:.1f}{' (best)' if is_best else ''}  "
            f"{epoch.num_pairs / epoch.seconds:,.0f} pairs/s  {_clock(left)} left",
            highlight=False,
            soft_wrap=True,
        )


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(max(0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
