"""The one place where training is wired together: recipe + data -> model and pairs -> the best snapshot."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsepp.data.captioned import CaptionedImage, CaptionedImages, have_features
from vsepp.data.tokens import Vocabulary
from vsepp.devices import (
    ALONE,
    FirstStopped,
    PeerLost,
    Processes,
    best_device,
    computing_in,
    init_processes,
    prepare,
)
from vsepp.encoders.architecture import FEATURES, Architecture, Design
from vsepp.encoders.backbones import accept_other_sizes
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WorkFailed
from vsepp.evaluation.behaviour import behaviour
from vsepp.evaluation.retrieval import Retrieval, embed
from vsepp.experiments.preparation.pretrained import (
    fit_other_net,
    load_word_vectors,
    pretrained_model,
)
from vsepp.experiments.preparation.process_checks import (
    check_that_every_process_has_a_pair,
    check_that_processes_agree,
)
from vsepp.experiments.preparation.teachers import check_teachers, teacher_of
from vsepp.experiments.progress.health import Stopped, check_health, check_weights
from vsepp.experiments.progress.run_folder import (
    Keeper,
    MetricsLog,
    Run,
    has_something_to_resume,
    refuse_stopped,
)
from vsepp.experiments.progress.watcher import Silent, Watcher
from vsepp.experiments.provenance import fingerprint, notes_of
from vsepp.experiments.recipe import LossKeys, PhaseKeys, Recipe
from vsepp.experiments.recipes.keys import loss_named
from vsepp.experiments.stored_features import (
    check_that_crops_are_fixed,
    check_that_features_fit,
    learns_from_features_alone,
    length_of_features,
    with_features,
)
from vsepp.loading.batches import Batches, Pairs
from vsepp.loading.caption_noise import with_wrong_captions
from vsepp.training.averaging import AveragedWeights
from vsepp.training.loop import Epoch, Phase, Step
from vsepp.training.trainer import adam, steps_and_epochs


def run(
    recipe: Recipe, data: CaptionedImages, into: Path, resume: bool = False, watcher: Watcher | None = None
) -> Run:  # fmt: skip
    """Train as the recipe says and leave the best snapshot, metrics and TensorBoard events.

    With `resume`, a run that was killed continues after its last complete epoch and ends with the weights
    that it would have had: the same bits on a CPU; on a GPU up to rounding, because atomic additions
    come in any order. Where torchrun has started several processes, they share the work.
    """
    processes = init_processes()
    if recipe.method == "correlation":
        from vsepp.experiments.closed_form import solve  # which sets up its model here

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
    if processes.number > 1:
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
    if not resumes:
        processes.as_first(keeper.begin)
    batches = _batches(recipe, setup.learned, processes)
    events = steps_and_epochs(
        setup.model,
        batches,
        phases,
        gradient_clip=recipe.gradient_clip,
        reduction=recipe.loss.reduction,
        mask_same_image=recipe.loss.mask_same_image,
        nested=recipe.loss.nested,
        teacher_weight=recipe.loss.teacher_weight,
        teacher_temperature=recipe.loss.teacher_temperature,
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


@dataclass(frozen=True)
class Setup:
    """All that a training needs before its first step."""

    model: JointEmbedding
    vocabulary: Vocabulary
    architecture: Architecture
    learned: Pairs
    validation: Pairs


def set_up(
    recipe: Recipe,
    data: CaptionedImages,
    device: torch.device,
    processes: Processes = ALONE,
    report: Callable[[str], None] = lambda text: None,
) -> Setup:
    """A model, the words it will know, and the pairs to learn from and to validate on."""
    if recipe.teachers:
        check_teachers(recipe.teachers)
    data = data.with_captions(recipe.data.captions)
    items = data.training_items(recipe.data.train)
    if recipe.data.wrong_captions:
        items = with_wrong_captions(items, recipe.data.wrong_captions, recipe.seed)
    held_out = data.split(recipe.data.validate)[: recipe.data.validate_images or None]
    if processes.number > 1:
        check_that_processes_agree(recipe, items, held_out, processes)
    vocabulary, architecture, model = _model(recipe, data, items, report)
    model.to(device, torch.float64 if recipe.precision == "float64" else torch.float32)
    if recipe.start_from:
        fit_other_net(recipe, model, items, vocabulary, architecture.view, processes)
    processes.broadcast(list(model.state_dict().values()))
    learned = Pairs(items, vocabulary, recipe.view_of_training(architecture.view))
    if recipe.data.crop_size not in (0, architecture.size) and learned.images.are_pixels:
        accept_other_sizes(model.image_encoder.backbone.net)
    validation = Pairs(held_out, vocabulary, architecture.view)
    if not recipe.model.finetune:
        validation = with_features(model, validation, processes)
        if not recipe.crops_at_random:
            learned = with_features(model, learned, processes)
    learned, validation = (
        pairs.with_images(pairs.images.near(device)) for pairs in (learned, validation)
    )
    if folders := recipe.teachers:
        learned = learned.with_teacher(teacher_of(folders, learned, data, device, processes))
    if recipe.precision != "float64":
        # Batch norms that wait for other processes cannot be compiled.
        model.image_encoder.use_fast_training(recipe.compiled and processes.number == 1)
    return Setup(model, vocabulary, architecture, learned, validation)


def _model(
    recipe: Recipe, data: CaptionedImages, items: list[CaptionedImage], report: Callable[[str], None]
) -> tuple[Vocabulary, Architecture, JointEmbedding]:  # fmt: skip
    """New or pretrained, and checked with the data."""
    new_or_pretrained = pretrained_model if recipe.start_from else _new_model
    vocabulary, architecture, model = new_or_pretrained(recipe, data, items)
    if (file := recipe.model.word_vectors) and not recipe.start_from:
        report(load_word_vectors(file, model.caption_encoder.words, vocabulary))
    if have_features(data.items) or architecture.takes_features:
        check_that_features_fit(architecture, model, data, recipe.model.finetune_from)
        check_that_crops_are_fixed(recipe, architecture, data)
    return vocabulary, architecture, model


def _new_model(
    recipe: Recipe, data: CaptionedImages, items: list[CaptionedImage]
) -> tuple[Vocabulary, Architecture, JointEmbedding]:
    """A model of random heads, and the words of the captions to learn from."""
    # differs from the release: its vocabulary counts validation and test captions, too
    captions = (caption for item in items for caption in item.captions)
    vocabulary = Vocabulary.learn(captions, recipe.data.min_count, recipe.data.cutter)
    asked = recipe.model
    keys: dict[str, Any] = {f.name: getattr(asked, f.name) for f in fields(Design)}
    crops = 10 if recipe.data.crop == "ten" else 1
    takes_features = have_features(data.items) or asked.backbone.startswith("features")
    if takes_features and learns_from_features_alone(recipe, data):
        keys["backbone"] = f"{FEATURES}{length_of_features(data)}"
        crops = (data.origin or {}).get("crops", crops)
    architecture = Architecture(num_words=len(vocabulary), crops=crops, **keys)
    model = JointEmbedding.build(
        architecture, asked.weights, asked.finetune, asked.fixed_statistics, asked.finetune_from
    )
    return vocabulary, architecture, model


def _batches(recipe: Recipe, learned: Pairs, processes: Processes) -> Batches:
    return learned.batches(
        recipe.batch_size,
        recipe.data.crop,
        recipe.seed,
        recipe.model.word_dropout,
        processes.share,
        recipe.data.captions_per_epoch,
        recipe.data.short_captions,
    )


def _follow(
    events: Iterator[Step | Epoch], recipe: Recipe, setup: Setup, batches: Batches, keeper: Keeper,
    processes: Processes, watcher: Watcher, epochs_done: int,
) -> None:  # fmt: skip
    """Score every epoch; the first process shows it, writes it down and keeps it."""
    log = MetricsLog(keeper.into, recipe.batch_size, epochs_done)
    similarity, owners = setup.model.similarity, torch.from_numpy(setup.validation.image_of_caption)

    def end_epoch(epoch: Epoch, images: Tensor, captions: Tensor) -> Run:
        result = Retrieval.from_vectors(images, captions, owners, similarity)
        seen = len(batches), images, captions, result.rsum
        keeper.health = check_health(recipe, keeper.health, epoch, *seen, watcher.message)
        check_weights(recipe, epoch, setup.model.parameters())
        is_best = keeper.is_best(result)
        margin, batch_size = recipe.loss.margin, recipe.batch_size
        shown = behaviour(images, captions, owners, similarity, margin, batch_size)
        log.epoch(epoch, len(batches), result, is_best, shown)
        watcher.epoch(epoch, result, is_best)
        return keeper.keep(epoch, result)

    num_epochs = sum(phase.epochs for phase in recipe.phases)
    best = keeper.best.validation.rsum if keeper.best else 0.0
    processes.seed_process(recipe.seed, epochs_done)
    with ExitStack() as exits:
        if processes.is_first:
            exits.enter_context(log)
            exits.callback(watcher.end)
            watcher.begin(recipe.name, num_epochs, batches.pairs_per_epoch, epochs_done, best)
        for event in events:
            if isinstance(event, Step):
                if processes.is_first:
                    watcher.step(event)
                    log.step(event)
                continue
            with keeper.model_to_keep():
                vectors = embed(setup.model, setup.validation, processes)
            keeper.best = processes.as_first(partial(end_epoch, event, *vectors))
            processes.seed_process(recipe.seed, event.number)


@contextmanager
def _explain_how_to_resume(keeper: Keeper, processes: Processes) -> Iterator[None]:
    """If a run cannot continue, its best snapshot stays, and the message says how to resume."""
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
