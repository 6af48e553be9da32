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
from vsepp.experiments.journal import Journal
from vsepp.experiments.progress import TrainingProgress
from vsepp.experiments.recipe import LossKeys, PhaseKeys, Recipe
from vsepp.training.loop import Epoch, Phase, Step, adam, steps_and_epochs
from vsepp.training.state import load_state, save_state

STATE = "resume.state"


@dataclass(frozen=True)
class Run:
    """A finished training: its folder, and what its best epoch scored in validation."""

    folder: Path
    epoch: int
    validation: Retrieval


def run(recipe: Recipe, data: CaptionedImages, into: Path, resume: bool = False) -> Run:
    """Train as the recipe says and leave the best snapshot, metrics and TensorBoard events.

    With `resume`, a run that was killed goes on after its last whole epoch and ends with the very
    weights that it would have had.
    """
    phases = [_phase(keys, recipe.loss) for keys in recipe.phases]
    resumes = _has_something_to_resume(into, resume)
    torch.manual_seed(recipe.seed)
    device = best_device()
    prepare(device)
    items = [item for split in recipe.data.train for item in data.split(split)]
    vocabulary = Vocabulary.learn(_captions(items), recipe.data.min_count)
    architecture = _architecture(recipe, len(vocabulary))
    model = JointEmbedding.build(architecture, recipe.model.weights, recipe.model.finetune)
    model.to(device)
    held_out = data.split(recipe.data.validate)
    learned, validation = _pairs(recipe, model, vocabulary, items, held_out)
    batches = learned.batches(recipe.batch_size, recipe.data.crop, recipe.seed)
    optimizer = adam(model)
    best: Run | None = None
    if resumes:
        facts = load_state(into / STATE, model, optimizer)
        _check_that_nothing_changed(facts, recipe, len(learned), into)
        batches.epoch = facts["epoch"]
        best = Run(into, facts["best_epoch"], Retrieval.from_dict(facts["best"]))
    events = steps_and_epochs(
        model,
        batches,
        phases,
        gradient_clip=recipe.gradient_clip,
        reduction=recipe.loss.reduction,
        mask_same_image=recipe.loss.mask_same_image,
        device=device,
        optimizer=optimizer,
        epochs_done=batches.epoch,
    )
    health = HealthCheck(recipe)
    num_epochs = sum(phase.epochs for phase in phases)
    owners = torch.from_numpy(validation.image_of_caption)
    try:
        with (
            Journal(into, batches.epoch) as journal,
            TrainingProgress(
                recipe.name,
                num_epochs,
                len(learned),
                batches.epoch,
                best.validation.rsum if best else 0.0,
            ) as progress,
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
                journal.epoch(event, len(batches), result, is_best)
                progress.epoch(event, result, is_best)
                if is_best:
                    best = Run(into, event.number, result)
                    notes = _notes(recipe, data, best)
                    Snapshot(model, vocabulary, architecture, notes).save(into, graphs=False)
                facts = _facts(recipe, len(learned), event, best)
                save_state(into / STATE, model, optimizer, facts)
    finally:
        # The graphs take seconds to make, so only the snapshot that is kept gets them; it is kept,
        # too, when the run is interrupted or goes wrong.
        if best is not None:
            Snapshot.load(into).save(into)
    assert best is not None  # there was at least one epoch
    (into / STATE).unlink(missing_ok=True)
    return best


def _has_something_to_resume(into: Path, resume: bool) -> bool:
    """Whether a killed run is to go on here; a folder with a snapshot is never written over."""
    was_killed = (into / STATE).exists()
    if (into / CONFIG).exists() and not (resume and was_killed):
        advice = "Go on with --resume." if was_killed else "Its run is finished."
        raise WrongRequest(f"{into} holds a snapshot already. {advice} Or take another folder.")
    return resume and was_killed


def _pairs(
    recipe: Recipe,
    model: JointEmbedding,
    vocabulary: Vocabulary,
    items: list[CaptionedImage],
    held_out: list[CaptionedImage],
) -> tuple[Pairs, Pairs]:
    """What to learn from and what to validate on, as features where the net does not change them."""
    size, resize = recipe.model.size, recipe.model.resize
    learned, validation = (Pairs(part, vocabulary, size, resize) for part in (items, held_out))
    if recipe.model.finetune:
        return learned, validation
    if recipe.data.crop == "center":
        learned = with_features(model, learned)
    return learned, with_features(model, validation)


def _facts(recipe: Recipe, num_pairs: int, epoch: Epoch, best: Run | None) -> dict[str, Any]:
    assert best is not None  # an epoch has just been scored
    return {
        "recipe": json.dumps(recipe.as_dict()),
        "num_pairs": num_pairs,
        "epoch": epoch.number,
        "best_epoch": best.epoch,
        "best": best.validation.as_dict(),
    }


def _check_that_nothing_changed(
    facts: dict[str, Any], recipe: Recipe, num_pairs: int, into: Path
) -> None:
    before, now = json.loads(facts["recipe"]), json.loads(json.dumps(recipe.as_dict()))
    changed = [
        f"{key} (was {before[key]}, is {now[key]})" for key in now if before[key] != now[key]
    ]
    if facts["num_pairs"] != num_pairs:
        changed.append(f"the data (was {facts['num_pairs']:,} pairs, is {num_pairs:,})")
    if changed:
        raise WrongRequest(f"{into} cannot be resumed, something changed: {'; '.join(changed)}.")


@torch.no_grad()
def with_features(model: JointEmbedding, pairs: Pairs) -> Pairs:
    """Sec. 3: what a frozen net makes of a fixed crop can be computed once and reused."""
    device = next(model.parameters()).device
    model.eval()
    features = [model.image_encoder.features(batch.to(device)) for batch in pairs.image_batches()]
    return pairs.with_features(torch.cat(features))


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
