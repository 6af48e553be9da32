"""The one place where learning is wired together: recipe + data -> the best snapshot."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from vsepp.data.captioned import CaptionedImages
from vsepp.devices import OthersGone, Processes, best_device, join, prepare
from vsepp.equations.losses import LOSSES
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.agreement import check_that_each_has_a_pair
from vsepp.experiments.bookkeeping import Bookkeeping
from vsepp.experiments.closed_form import solve
from vsepp.experiments.keeper import Keeper, Run, has_something_to_resume
from vsepp.experiments.recipe import LossKeys, PhaseKeys, Recipe
from vsepp.experiments.setup import set_up
from vsepp.training.loop import Epoch, Phase, Step, adam, steps_and_epochs


def run(recipe: Recipe, data: CaptionedImages, into: Path, resume: bool = False) -> Run:
    """Train as the recipe says and leave the best snapshot, metrics and TensorBoard events.

    With `resume`, a run that was killed goes on after its last whole epoch and ends with the very
    weights that it would have had. Where torchrun has started several processes, they share the work.
    """
    processes = join()
    if recipe.method == "correlation":
        return processes.as_first(lambda: solve(recipe, data, into))
    phases = [_phase(keys, recipe.loss) for keys in recipe.phases]
    check_that_each_has_a_pair(recipe, processes)
    resumes = processes.as_first(lambda: has_something_to_resume(into, resume))
    torch.manual_seed(recipe.seed)
    device = best_device()
    prepare(device)
    setup = set_up(recipe, data, device, processes)
    ways = recipe.batch_size, recipe.data.crop, recipe.seed
    batches = setup.learned.batches(*ways, share=processes.share)
    optimizer = adam(setup.model)
    notes = {"data": data.name, "left_out": len(data.left_out)}
    keeper = Keeper(recipe, notes, setup, optimizer, into)
    batches.epoch = keeper.go_back(processes) if resumes else 0
    books = Bookkeeping(recipe, setup, keeper, batches.epoch, len(batches))
    events = steps_and_epochs(
        setup.model,
        batches,
        phases,
        gradient_clip=recipe.gradient_clip,
        reduction=recipe.loss.reduction,
        mask_same_image=recipe.loss.mask_same_image,
        device=device,
        optimizer=optimizer,
        epochs_done=batches.epoch,
        processes=processes,
    )
    processes.throw_own_dice(recipe.seed, batches.epoch)
    with _what_is_left_is_said(keeper, processes):
        _follow(events, books, processes)
    return processes.as_first(keeper.finish)


def _follow(events: Iterator[Step | Epoch], books: Bookkeeping, processes: Processes) -> None:
    """Watch the steps; score every epoch, write it down, and keep it."""
    setup, keeper, seed = books.setup, books.keeper, books.recipe.seed
    with books if processes.is_first else nullcontext():
        for event in events:
            if isinstance(event, Epoch):
                vectors = embed(setup.model, setup.validation, processes)
                keeper.best = processes.as_first(partial(books.epoch, event, *vectors))
                processes.throw_own_dice(seed, event.number)
            elif processes.is_first:
                books.step(event)


@contextmanager
def _what_is_left_is_said(keeper: Keeper, processes: Processes) -> Iterator[None]:
    """A run that cannot go on leaves its best snapshot, and tells how to go on from there."""
    try:
        yield
    except OthersGone as error:
        raise WorkFailed(f"{error} {keeper.what_is_left()}") from error
    except OSError as error:
        raise WorkFailed(
            f"{keeper.into} cannot be written: {error}. {keeper.what_is_left()}"
        ) from error
    except (KeyboardInterrupt, WorkFailed):
        if processes.is_first:
            keeper.add_graphs()  # what was learned so far can be used
        raise


def _phase(keys: PhaseKeys, settings: LossKeys) -> Phase:
    if keys.loss not in LOSSES:
        raise WrongRequest(f"There is no loss {keys.loss!r}. Known: {', '.join(LOSSES)}.")
    loss = LOSSES[keys.loss]
    # Each loss takes the keys that it has a parameter for.
    taken = {k: v for k, v in asdict(settings).items() if k in inspect.signature(loss).parameters}
    return Phase(keys.epochs, keys.learning_rate, partial(loss, **taken))
