"""The one place where training is wired together: recipe + data -> the best snapshot."""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from vsepp.data.captioned import CaptionedImages
from vsepp.devices import (
    FirstStopped,
    PeerLost,
    Processes,
    best_device,
    computing_in,
    init_processes,
    prepare,
)
from vsepp.errors import WorkFailed
from vsepp.evaluation.behaviour import behaviour
from vsepp.evaluation.retrieval import Retrieval, embed
from vsepp.experiments.closed_form import solve
from vsepp.experiments.health import HealthCheck, Stopped, refuse_stopped
from vsepp.experiments.journal import Journal
from vsepp.experiments.keeper import Keeper, Run, has_something_to_resume
from vsepp.experiments.keys import loss_named
from vsepp.experiments.provenance import fingerprint, notes_of
from vsepp.experiments.recipe import LossKeys, PhaseKeys, Recipe
from vsepp.experiments.setup import Setup, check_that_every_process_has_a_pair, set_up
from vsepp.loading.batches import Batches
from vsepp.training.loop import AveragedWeights, Epoch, Phase, Step
from vsepp.training.trainer import adam, steps_and_epochs


class Watcher(Protocol):
    """Sees a run as it goes, in the first process only: what the command line shows."""

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


def run(
    recipe: Recipe, data: CaptionedImages, into: Path, resume: bool = False, watcher: Watcher | None = None
) -> Run:  # fmt: skip
    """Train as the recipe says and leave the best snapshot, metrics and TensorBoard events.

    With `resume`, a run that was killed goes on after its last whole epoch and ends with the weights
    that it would have had: on a CPU the very same, on a GPU up to rounding, as its atomic additions
    come in any order. Where torchrun has started several processes, they share the work.
    """
    processes = init_processes()
    if recipe.method == "correlation":
        return processes.as_first(lambda: solve(recipe, data, into))
    watcher = watcher if watcher is not None and processes.is_first else Silent()
    device = best_device()
    prepare(device)
    with computing_in(recipe.precision):  # features, training and validation alike
        return _train(recipe, data, into, resume, device, processes, watcher)


def _train(
    recipe: Recipe, data: CaptionedImages, into: Path, resume: bool, device: torch.device, processes: Processes,
    watcher: Watcher,
) -> Run:  # fmt: skip
    phases = [_phase(keys, recipe.loss) for keys in recipe.phases]
    check_that_every_process_has_a_pair(recipe, processes)
    resumes = processes.as_first(lambda: has_something_to_resume(into, resume))
    of_run = processes.as_first(lambda: fingerprint(recipe, data))
    processes.as_first(lambda: refuse_stopped(into, of_run, recipe.health))
    torch.manual_seed(recipe.seed)
    setup = set_up(recipe, data, device, processes, watcher.message)
    optimizer = adam(setup.model, recipe.net_share)
    average = AveragedWeights(setup.model, recipe.averaging) if recipe.averaging else None
    keeper = Keeper(recipe, notes_of(data, of_run), setup, optimizer, average, into)
    epochs_done = keeper.resume(processes) if resumes else 0
    batches = setup.learned.batches(
        recipe.batch_size,
        recipe.data.crop,
        recipe.seed,
        recipe.model.word_dropout,
        processes.share,
        recipe.data.captions_per_epoch,
    )
    events = steps_and_epochs(
        setup.model,
        batches,
        phases,
        gradient_clip=recipe.gradient_clip,
        reduction=recipe.loss.reduction,
        mask_same_image=recipe.loss.mask_same_image,
        nested=recipe.loss.nested,
        device=device,
        precision=recipe.precision,
        optimizer=optimizer,
        epochs_done=epochs_done,
        average=average,
        chunk_size=recipe.chunk_size or None,
        processes=processes,
    )
    with _explain_how_to_resume(keeper, processes):
        _follow(events, recipe, setup, batches, keeper, processes, watcher, epochs_done)
    return processes.as_first(keeper.finish)


def _follow(
    events: Iterator[Step | Epoch], recipe: Recipe, setup: Setup, batches: Batches, keeper: Keeper,
    processes: Processes, watcher: Watcher, epochs_done: int,
) -> None:  # fmt: skip
    """Score every epoch; the first process shows it, writes it down and keeps it."""
    journal = Journal(keeper.into, recipe.batch_size, epochs_done)
    health = HealthCheck(recipe, keeper.health, watcher.message)
    similarity, owners = setup.model.similarity, torch.from_numpy(setup.validation.image_of_caption)

    def end_epoch(epoch: Epoch, images: Tensor, captions: Tensor) -> Run:
        result = Retrieval.from_vectors(images, captions, owners, similarity)
        health.look(epoch, len(batches), images, captions, result.rsum)
        health.look_at_weights(epoch, setup.model.parameters())
        is_best = keeper.is_best(result)
        margin, batch_size = recipe.loss.margin, recipe.batch_size
        seen = behaviour(images, captions, owners, similarity, margin, batch_size)
        journal.epoch(epoch, len(batches), result, is_best, seen)
        watcher.epoch(epoch, result, is_best)
        return keeper.keep(epoch, result, health.state)

    num_epochs = sum(phase.epochs for phase in recipe.phases)
    best = keeper.best.validation.rsum if keeper.best else 0.0
    processes.seed_process(recipe.seed, epochs_done)
    with ExitStack() as exits:
        if processes.is_first:
            exits.enter_context(journal)
            exits.callback(watcher.end)
            watcher.begin(recipe.name, num_epochs, batches.pairs_per_epoch, epochs_done, best)
        for event in events:
            if isinstance(event, Step):
                if processes.is_first:
                    watcher.step(event)
                    journal.step(event)
                continue
            with keeper.model_to_keep():
                vectors = embed(setup.model, setup.validation, processes)
            keeper.best = processes.as_first(partial(end_epoch, event, *vectors))
            processes.seed_process(recipe.seed, event.number)


@contextmanager
def _explain_how_to_resume(keeper: Keeper, processes: Processes) -> Iterator[None]:
    """A run that cannot go on leaves its best snapshot, and the message says how to continue."""
    try:
        yield
    except FirstStopped:
        raise
    except PeerLost as error:
        raise WorkFailed(f"{error} {keeper.advice()}") from error
    except OSError as error:
        raise WorkFailed(f"{keeper.into} cannot be written: {error}. {keeper.advice()}") from error
    except (KeyboardInterrupt, WorkFailed) as error:
        if processes.is_first:
            keeper.add_graphs()  # what was learned so far can be used
            if isinstance(error, Stopped):
                error.write(keeper.into, keeper.notes["fingerprint"])
        raise


def _phase(keys: PhaseKeys, settings: LossKeys) -> Phase:
    loss = loss_named(keys.loss)
    # Each loss takes the keys that it has a parameter for.
    taken = {k: v for k, v in asdict(settings).items() if k in inspect.signature(loss).parameters}
    return Phase(
        keys.epochs, keys.learning_rate, partial(loss, **taken), keys.schedule, keys.warm_up
    )
