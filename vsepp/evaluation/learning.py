"""What is known of a training run, epoch by epoch: the matter of its learning curves."""

from collections.abc import Sequence
from dataclasses import dataclass

from vsepp.evaluation.behaviour import Behaviour
from vsepp.evaluation.retrieval import Retrieval


@dataclass(frozen=True)
class Point:
    """A run after one of its epochs."""

    epoch: int
    seconds: float  # of training, since the run began
    loss: float
    loss_name: str  # empty where it is not known
    validation: Retrieval
    behaviour: Behaviour | None


@dataclass(frozen=True)
class LearningCurve:
    name: str
    points: Sequence[Point]

    @property
    def behaviours(self) -> list[Behaviour]:
        """Of the epochs that have one; older runs have none."""
        return [point.behaviour for point in self.points if point.behaviour]
