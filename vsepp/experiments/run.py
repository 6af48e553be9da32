"""The one place where learning is wired together: recipe + data -> the best snapshot."""

import inspect
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vsepp.data.batches import Pairs
from vsepp.data.captioned import CaptionedImage, CaptionedImages
from vsepp.data.tokens import Vocabulary
from vsepp.devices import best_device, prepare
from vsepp.encoders.joint import Architecture, JointEmbedding
from vsepp.encoders.snapshot import CONFIG, Snapshot
from vsepp.equations.losses import LOSSES
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import Retrieval, embed
from vsepp.experiments.health import HealthCheck
from vsepp.experiments.progress import TrainingProgress
from vsepp.experiments.recipe import LossKeys, PhaseKeys, Recipe
from vsepp.training.loop import Epoch, Phase, Step, steps_and_epochs

METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class Run:
    """A finished training: its folder, and what its best epoch scored in validation."""

    folder: Path
    epoch: int
    validation: Retrieval


def run(recipe: Recipe, data: CaptionedImages, into: Path) -> Run:
    """Train as the recipe says and leave the best snapshot, metrics and TensorBoard events."""
    phases = [_phase(keys, recipe.loss) for keys in recipe.phases]
    if (into / CONFIG).exists():
        raise WrongRequest(f"{into} holds a snapshot already. Take another folder, or remove it.")
    torch.manual_seed(recipe.seed)
    device = best_device()
    prepare(device)
    items = [item for split in recipe.data.train for item in data.split(split)]
    vocabulary = Vocabulary.learn(_captions(items), recipe.data.min_count)
    architecture = _architecture(recipe, len(vocabulary))
    model = JointEmbedding.build(architecture, recipe.model.weights, recipe.model.finetune)
    model.to(device)
    held_out = data.split(recipe.data.validate)
    learned, validation = (
        Pairs(part, vocabulary, recipe.model.size, recipe.model.resize)
        for part in (items, held_out)
    )
    if not recipe.model.finetune:
        validation = with_features(model, validation)
        if recipe.data.crop == "center":
            learned = with_features(model, learned)
    batches = learned.batches(recipe.batch_size, recipe.data.crop, recipe.seed)
    events = steps_and_epochs(
        model,
        batches,
        phases,
        gradient_clip=recipe.gradient_clip,
        reduction=recipe.loss.reduction,
        mask_same_image=recipe.loss.mask_same_image,
        device=device,
    )
    best: Run | None = None
    health = HealthCheck(recipe)
    num_epochs = sum(phase.epochs for phase in phases)
    owners = torch.from_numpy(validation.image_of_caption)
    try:
        with (
            Journal(into) as journal,
            TrainingProgress(recipe.name, num_epochs, len(learned)) as progress,
        ):
            for event in events:
                if isinstance(event, Step):
                    progress.step(event)
                    journal.step(event)
                    continue
                images, captions = embed(model, validation)
                health.look(event, len(batches), images, captions)
                result = Retrieval.from_vectors(images, captions, owners, model.similarity)
                is_best = best is None or result.rsum > best.validation.rsum
                journal.epoch(event, result, is_best)
                progress.epoch(event, result, is_best)
                if is_best:
                    best = Run(into, event.number, result)
                    notes = _notes(recipe, data, best)
                    Snapshot(model, vocabulary, architecture, notes).save(into, graphs=False)
    finally:
        # The graphs take seconds to make, so only the snapshot that is kept gets them; it is kept,
        # too, when the run is interrupted or goes wrong.
        if best is not None:
            Snapshot.load(into).save(into)
    assert best is not None  # there was at least one epoch
    return best


@torch.no_grad()
def with_features(model: JointEmbedding, pairs: Pairs) -> Pairs:
    """Sec. 3: what a frozen net makes of a fixed crop can be computed once and reused."""
    device = next(model.parameters()).device
    model.eval()
    features = [model.image_encoder.features(batch.to(device)) for batch in pairs.image_batches()]
    return pairs.with_features(torch.cat(features))


class Journal:
    """metrics.jsonl and TensorBoard events beside the snapshot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._steps = 0

    def __enter__(self) -> "Journal":
        from torch.utils.tensorboard import SummaryWriter

        self.folder.mkdir(parents=True, exist_ok=True)
        self._lines = (self.folder / METRICS).open("w", encoding="utf-8")
        self._board = SummaryWriter(self.folder)
        return self

    def __exit__(self, *reason: object) -> None:
        self._lines.close()
        self._board.close()

    def step(self, step: Step) -> None:
        self._steps += 1
        if self._steps % 10 == 0:  # reading a loss waits for the device
            self._board.add_scalar("train/loss", step.loss.item(), self._steps)

    def epoch(self, epoch: Epoch, result: Retrieval, is_best: bool) -> None:
        line = {**asdict(epoch), "validation": result.as_dict(), "best": is_best}
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
        self._board.add_scalar("train/epoch_loss", epoch.loss, self._steps)
        self._board.add_scalar("train/learning_rate", epoch.learning_rate, self._steps)
        self._board.add_scalar("validation/rsum", result.rsum, self._steps)
        for direction in ("captions", "images"):
            for name, value in asdict(getattr(result, direction)).items():
                self._board.add_scalar(f"validation/{direction}/{name}", value, self._steps)


def _phase(keys: PhaseKeys, settings: LossKeys) -> Phase:
    if keys.loss not in LOSSES:
        raise WrongRequest(f"There is no loss {keys.loss!r}. Known: {', '.join(LOSSES)}.")
    loss = LOSSES[keys.loss]
    # Each loss takes the keys that it has a parameter for.
    taken = {k: v for k, v in asdict(settings).items() if k in inspect.signature(loss).parameters}
    return Phase(keys.epochs, keys.learning_rate, partial(loss, **taken))


def _architecture(recipe: Recipe, num_words: int) -> Architecture:
    keys = {k: v for k, v in asdict(recipe.model).items() if k not in ("weights", "finetune")}
    return Architecture(num_words=num_words, **keys)


def _notes(recipe: Recipe, data: CaptionedImages, best: Run) -> dict[str, Any]:
    return {
        "data": data.name,
        "epoch": best.epoch,
        "validation_rsum": round(best.validation.rsum, 1),
        "recipe": recipe.as_dict(),
    }


def _captions(items: Iterable[CaptionedImage]) -> Iterable[str]:
    return (caption for item in items for caption in item.captions)
