"""The interface by which the command line shows a run."""

from typing import Protocol

from vsepp.evaluation.retrieval import Retrieval
from vsepp.training.loop import Epoch, Step


class Watcher(Protocol):
    """Called during a run, in the first process only."""

    def begin(
        self, name: str, num_epochs: int, num_pairs: int, epochs_done: int, best_rsum: float
    ) -> None: ...

    def step(self, step: Step) -> None: ...

    def epoch(self, epoch: Epoch, result: Retrieval, is_best: bool) -> None: ...

    def message(self, text: str) -> None: ...

    def end(self) -> None:
        """Also where the run has failed."""


class Silent:
    """Shows nothing."""

    def begin(
        self, name: str, num_epochs: int, num_pairs: int, epochs_done: int, best_rsum: float
    ) -> None:
        pass

    def step(self, step: Step) -> None:
        pass

    def epoch(self, epoch: Epoch, result: Retrieval, is_best: bool) -> None:
        pass

    def message(self, text: str) -> None:
        pass

    def end(self) -> None:
        pass
