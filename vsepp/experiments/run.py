"""The one place where learning is wired together: recipe + data -> the best snapshot."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from vsepp.data.captioned import CaptionedImages
from vsepp.devices import best_device, prepare
from vsepp.errors import WorkFailed
from vsepp.evaluation.behaviour import behaviour
from vsepp.evaluation.retrieval import Retrieval, embed
from vsepp.experiments.closed_form import solve
from vsepp.experiments.health import HealthCheck
from vsepp.experiments.journal import Journal
from vsepp.experiments.keeper import Keeper, Run, has_something_to_resume
from vsepp.experiments.losses import loss_named
from vsepp.experiments.progress import TrainingProgress
from vsepp.experiments.recipe import LossKeys, PhaseKeys, Recipe
from vsepp.experiments.setup import Setup, set_up
from vsepp.training import fast, loop
from vsepp.training.loop import Epoch, Phase, Step, adam


def run(recipe: Recipe, data: CaptionedImages, into: Path, resume: bool = False) -> Run:
    """Train as the recipe says and leave the best snapshot, metrics and TensorBoard events.

    With `resume`, a run that was killed goes on after its last whole epoch and ends with the very
    weights that it would have had.
    """
    if recipe.method == "correlation":
        return solve(recipe, data, into)
    phases = [_phase(keys, recipe.loss) for keys in recipe.phases]
    resumes = has_something_to_resume(into, resume)
    torch.manual_seed(recipe.seed)
    device = best_device()
    prepare(device)
    setup = set_up(recipe, data, device)
    batches = setup.learned.batches(recipe.batch_size, recipe.data.crop, recipe.seed)
    optimizer = adam(setup.model)
    notes = {"data": data.name, "left_out": len(data.left_out)}
    keeper = Keeper(recipe, notes, setup, optimizer, into)
    batches.epoch = keeper.go_back() if resumes else 0
    events = walk_for(recipe, setup, device)(
        setup.model,
        batches,
        phases,
        gradient_clip=recipe.gradient_clip,
        reduction=recipe.loss.reduction,
        mask_same_image=recipe.loss.mask_same_image,
        device=device,
        optimizer=optimizer,
        epochs_done=batches.epoch,
    )
    try:
        _follow(events, recipe, setup, keeper, batches.epoch, len(batches))
    except OSError as error:
        raise WorkFailed(f"{into} cannot be written: {error}. {keeper.what_is_left()}") from error
    except (KeyboardInterrupt, WorkFailed):
        keeper.add_graphs()  # what was learned so far can be used
        raise
    keeper.add_graphs()
    return keeper.finish()


def _follow(
    events: Iterator[Step | Epoch],
    recipe: Recipe,
    setup: Setup,
    keeper: Keeper,
    epochs_done: int,
    num_steps: int,
) -> None:
    """Watch the steps; score every epoch, write it down, and keep it."""
    health = HealthCheck(recipe)
    num_epochs = sum(phase.epochs for phase in recipe.phases)
    best = keeper.best.validation.rsum if keeper.best else 0.0
    owners = torch.from_numpy(setup.validation.image_of_caption)
    with (
        Journal(keeper.into, recipe.batch_size, epochs_done) as journal,
        TrainingProgress(
            recipe.name, num_epochs, len(setup.learned), epochs_done, best
        ) as progress,
    ):
        for event in events:
            if isinstance(event, Step):
                progress.step(event)
                journal.step(event)
                continue
            images, captions = embed(setup.model, setup.validation)
            health.look(event, num_steps, images, captions)
            result = Retrieval.from_vectors(images, captions, owners, setup.model.similarity)
            is_best = keeper.is_best(result)
            ways = setup.model.similarity, recipe.loss.margin, recipe.batch_size
            seen = behaviour(images, captions, owners, *ways)
            journal.epoch(event, num_steps, result, is_best, seen)
            progress.epoch(event, result, is_best)
            keeper.keep(event, result)


def walk_for(
    recipe: Recipe, setup: Setup, device: torch.device
) -> Callable[..., Iterator[Step | Epoch]]:
    """The fast loop; the plain one where a net learns on a CPU, or where batches come in chunks."""
    if recipe.chunk_size:
        return partial(loop.steps_and_epochs, chunk_size=recipe.chunk_size)
    if setup.learns_a_net and device.type == "cpu":
        return loop.steps_and_epochs  # its time is the net's
    return partial(fast.steps_and_epochs, precision=recipe.precision)


def _phase(keys: PhaseKeys, settings: LossKeys) -> Phase:
    loss = loss_named(keys.loss)
    # Each loss takes the keys that it has a parameter for.
    taken = {k: v for k, v in asdict(settings).items() if k in inspect.signature(loss).parameters}
    return Phase(keys.epochs, keys.learning_rate, partial(loss, **taken))
