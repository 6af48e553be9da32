"""The one place where learning is wired together: recipe + data -> the best snapshot."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from vsepp.data.captioned import CaptionedImages
from vsepp.devices import (
    ALONE,
    FirstStopped,
    OthersGone,
    Processes,
    best_device,
    join,
    prepare,
    products_in,
)
from vsepp.errors import WorkFailed
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.agreement import check_that_work_can_be_shared
from vsepp.experiments.bookkeeping import Bookkeeping
from vsepp.experiments.closed_form import solve
from vsepp.experiments.fingerprint import fingerprint
from vsepp.experiments.health import Stopped, refuse_stopped
from vsepp.experiments.keeper import Keeper, Run, has_something_to_resume
from vsepp.experiments.losses import loss_named
from vsepp.experiments.provenance import notes_of
from vsepp.experiments.recipe import LossKeys, PhaseKeys, Recipe
from vsepp.experiments.setup import Setup, set_up
from vsepp.training import fast, loop
from vsepp.training.average import RunningAverage
from vsepp.training.loop import Epoch, Phase, Step, adam


def run(recipe: Recipe, data: CaptionedImages, into: Path, resume: bool = False) -> Run:
    """Train as the recipe says and leave the best snapshot, metrics and TensorBoard events.

    With `resume`, a run that was killed goes on after its last whole epoch and ends with the weights
    that it would have had: on a CPU the very same, on a GPU up to rounding, as its atomic additions
    come in any order. Where torchrun has started several processes, they share the work.
    """
    processes = join()
    if recipe.method == "correlation":
        return processes.as_first(lambda: solve(recipe, data, into))
    device = best_device()
    prepare(device)
    with products_in(recipe.precision):  # features, training and validation alike
        return _train(recipe, data, into, resume, device, processes)


def _train(
    recipe: Recipe, data: CaptionedImages, into: Path, resume: bool, device: torch.device, processes: Processes
) -> Run:  # fmt: skip
    phases = [_phase(keys, recipe.loss) for keys in recipe.phases]
    check_that_work_can_be_shared(recipe, processes)
    resumes = processes.as_first(lambda: has_something_to_resume(into, resume))
    of_run = processes.as_first(lambda: fingerprint(recipe, data))
    processes.as_first(lambda: refuse_stopped(into, of_run, recipe.health))
    torch.manual_seed(recipe.seed)
    setup = set_up(recipe, data, device, processes)
    ways = recipe.batch_size, recipe.data.crop, recipe.seed, recipe.model.word_dropout
    batches = setup.learned.batches(*ways, processes.share, recipe.data.captions_per_epoch)
    optimizer = adam(setup.model, recipe.net_share)
    average = RunningAverage(setup.model, recipe.averaging) if recipe.averaging else None
    keeper = Keeper(recipe, notes_of(data, of_run), setup, optimizer, average, into)
    batches.epoch = keeper.go_back(processes) if resumes else 0
    books = Bookkeeping(recipe, setup, keeper, batches.epoch, len(batches))
    events = walk_for(recipe, setup, device, processes)(
        setup.model,
        batches,
        phases,
        gradient_clip=recipe.gradient_clip,
        reduction=recipe.loss.reduction,
        mask_same_image=recipe.loss.mask_same_image,
        device=device,
        optimizer=optimizer,
        epochs_done=batches.epoch,
        average=average,
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
                with keeper.model_to_keep():
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
    except FirstStopped:
        raise
    except OthersGone as error:
        raise WorkFailed(f"{error} {keeper.what_is_left()}") from error
    except OSError as error:
        raise WorkFailed(
            f"{keeper.into} cannot be written: {error}. {keeper.what_is_left()}"
        ) from error
    except (KeyboardInterrupt, WorkFailed) as error:
        if processes.is_first:
            keeper.add_graphs()  # what was learned so far can be used
            if isinstance(error, Stopped):
                error.write(keeper.into, keeper.notes["fingerprint"])
        raise


def walk_for(
    recipe: Recipe, setup: Setup, device: torch.device, processes: Processes = ALONE
) -> Callable[..., Iterator[Step | Epoch]]:
    """The fast loop; the plain one where a net learns on a CPU, or where batches are divided."""
    if recipe.chunk_size or processes.number > 1 or recipe.precision == "float64":
        chunk_size = recipe.chunk_size or None
        return partial(loop.steps_and_epochs, chunk_size=chunk_size, processes=processes)
    if (
        setup.learns_a_net
        and (device.type == "cpu" or recipe.model.finetune_from)
        and not recipe.loss.nested
    ):
        return loop.steps_and_epochs  # its time is the net's
    return partial(fast.steps_and_epochs, nested=recipe.loss.nested, precision=recipe.precision)


def _phase(keys: PhaseKeys, settings: LossKeys) -> Phase:
    loss = loss_named(keys.loss)
    # Each loss takes the keys that it has a parameter for.
    taken = {k: v for k, v in asdict(settings).items() if k in inspect.signature(loss).parameters}
    course = keys.learning_rate, partial(loss, **taken), keys.schedule, keys.warm_up
    return Phase(keys.epochs, *course)
