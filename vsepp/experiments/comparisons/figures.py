"""Figures from any run and any snapshot: learning curves, hard negatives, models side by side."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.data.captioned import CaptionedImage, have_features
from vsepp.data.collections import DEFAULTS, DataOptions, Track, no_progress, open_checked
from vsepp.data.pictures import open_picture
from vsepp.devices import best_device, full_precision, prepare
from vsepp.encoders.architecture import CONFIG, read_config
from vsepp.errors import WrongRequest
from vsepp.evaluation.behaviour import pairs_of_different_images
from vsepp.evaluation.figures.cards import Card, Entry, Shown, draw_cards
from vsepp.evaluation.figures.curves import LearningCurve, draw_curves
from vsepp.evaluation.figures.examples import HardNegatives, Ranked, hard_negatives, ranked
from vsepp.evaluation.figures.pages import cards_page, curves_page
from vsepp.evaluation.figures.palette import DARK
from vsepp.evaluation.retrieval import embed, embed_captions, embed_images
from vsepp.experiments.metrics import read_metrics
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot

BATCH = 128  # as in Fig. 3
NUM_PAIRS, NUM_PICTURES = 9, 8  # examples of either kind
NUM_FOUND = 5  # captions per image on the page; the drawing shows the first
PIXELS = 400  # longer side of an image in a figure
MARGIN = 0.2  # of models that do not record theirs


@dataclass(frozen=True)
class Figure:
    """A drawing, a page, and remarks on both."""

    drawing: Path
    page: Path
    remarks: tuple[str, ...] = ()


def curves(runs: Sequence[Path], into: Path) -> Figure:
    """Fig. 2: recall against epochs and time, non-zero hinge terms, similarities."""
    notes = [_notes(folder) for folder in runs]
    learned = [
        LearningCurve(name, read_metrics(folder, _losses(of_run)))
        for name, folder, of_run in zip(_names(runs, notes), runs, notes, strict=True)
    ]
    remarks = tuple(
        f"{curve.name}: metrics of an older version, without non-zero hinge terms and similarities; "
        "the figure leaves these out."
        for curve in learned
        if not curve.behaviours
    )
    light, dark = io.BytesIO(), io.BytesIO()
    draw_curves(learned, light)
    draw_curves(learned, dark, DARK)
    title = "Learning curves: " + ", ".join(curve.name for curve in learned)
    about = " ".join((ABOUT_CURVES, *remarks))
    page = curves_page(learned, light.getvalue(), dark.getvalue(), title, about)
    into.mkdir(parents=True, exist_ok=True)
    (into / "curves.png").write_bytes(light.getvalue())
    (into / "curves.html").write_text(page, encoding="utf-8")
    return Figure(into / "curves.png", into / "curves.html", remarks)


def negatives(
    folder: Path,
    where: str,
    into: Path,
    split: str = "train",
    seed: int = 0,
    options: DataOptions = DEFAULTS,
    track: Track = no_progress,
) -> Figure:
    """Fig. 3: the hardest negatives of some pairs in a random batch, and their costs."""
    snapshot = _load_with_backbone(folder)
    items = _open_images(where, split, options, track)
    batch = _random_pairs(items, seed)
    pairs = Pairs(batch, snapshot.vocabulary, snapshot.architecture.view, memory=0)
    margin = snapshot.notes.get("recipe", {}).get("loss", {}).get("margin", MARGIN)
    with full_precision():
        found = hard_negatives(snapshot.model.similarity(*embed(snapshot.model, pairs)), margin)
    cards = [_negatives_card(batch, found, place) for place in range(min(NUM_PAIRS, len(batch)))]
    title = f"Hard negatives in a random batch of {len(batch)}"
    costs = found.caption_costs + found.image_costs
    about = (
        f"{_names([folder], [snapshot.notes])[0]}, pairs of {where}, split {split}, seed {seed}. GT is the "
        "caption of the image on the left. HN is the caption of another pair that scores best with this "
        "image; the image on the right is the one that scores best with GT. In brackets their costs at "
        f"margin {margin:g}, max(0, margin + score of the negative - score of the pair); of all "
        f"{len(costs)} in the batch, {sum(cost > 0 for cost in costs)} are above zero, and the mean is "
        f"{np.mean(costs):.2f}."
    )
    return _as_figure(cards, title, about, into, "negatives", columns=3)


def compare(
    folders: Sequence[Path],
    where: str,
    into: Path,
    split: str = "test",
    seed: int = 0,
    options: DataOptions = DEFAULTS,
    track: Track = no_progress,
) -> Figure:
    """Fig. A.1: what models rank first for the same images, and the rank of the truth."""
    if len(folders) < 2:
        raise WrongRequest("Name two snapshots to compare.")
    snapshots = [_load_with_backbone(folder) for folder in folders]
    items = _open_images(where, split, options, track)
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(len(items))[:NUM_PICTURES].tolist()
    samples = [int(generator.integers(len(items[number].captions))) for number in chosen]
    found = [_found_by(snapshot, items, chosen) for snapshot in snapshots]
    names = _names(folders, [snapshot.notes for snapshot in snapshots])
    captions = [(number, text) for number, item in enumerate(items) for text in item.captions]
    cards = [
        _compared_card(
            items[number], number, sample, captions, dict(zip(names, by_model, strict=True))
        )
        for number, sample, *by_model in zip(chosen, samples, *found, strict=True)
    ]
    title = "Top captions of " + " and ".join(names)
    about = (
        f"{len(chosen)} of {len(items):,} images of {where}, split {split}, drawn at random with seed {seed}. "
        f"GT is one of the captions of the image. Below it is what each model ranks first among "
        f"{len(captions):,} captions, ticked where that is correct; in brackets the rank of the best "
        "correct one."
    )
    return _as_figure(cards, title, about, into, "compare", columns=4)


ABOUT_CURVES = (
    "Recall on the validation split after every epoch, against epochs and against the time spent in "
    "training. Non-zero hinge terms and similarities are those of a fixed sample of validation pairs, in "
    "batches of the run's own size and under its own margin; of the similarities, the last epoch is "
    "filled and the first is dotted."
)


def _as_figure(
    cards: Sequence[Card], title: str, about: str, into: Path, stem: str, columns: int
) -> Figure:
    into.mkdir(parents=True, exist_ok=True)
    drawing, page = into / f"{stem}.png", into / f"{stem}.html"
    missing = draw_cards(cards, title, about, drawing, columns)
    page.write_text(cards_page(cards, title, about), encoding="utf-8")
    remark = (
        f"No installed font has {' '.join(sorted(missing)[:20])}: {drawing.name} shows boxes instead, "
        f"{page.name} is complete."
    )
    return Figure(drawing, page, (remark,) if missing else ())


def _negatives_card(batch: list[CaptionedImage], found: HardNegatives, place: int) -> Card:
    rival = batch[found.captions[place]].captions[0]
    other = _picture(batch[found.images[place]])
    return Card(
        (
            Shown(_picture(batch[place])),
            Shown(other, f"hardest image [{found.image_costs[place]:.2f}]"),
        ),
        (
            Entry("GT", batch[place].captions[0]),
            Entry(f"HN [{found.caption_costs[place]:.2f}]", rival, model=1),
        ),
    )


def _compared_card(
    item: CaptionedImage,
    number: int,
    sample: int,
    captions: list[tuple[int, str]],
    found: dict[str, Ranked],
) -> Card:
    """`captions` are those of all images, each with the number of its image."""

    def entry(label: str, caption: int, model: int) -> Entry:
        owner, text = captions[caption]
        return Entry(label + (" ✓" if owner == number else ""), text, model)

    firsts = [
        entry(f"{name} [{by.rank}]", by.captions[0], model)
        for model, (name, by) in enumerate(found.items())
    ]
    others = [text for place, text in enumerate(item.captions) if place != sample]
    more = [
        entry(f"{name}, place {place}", caption, model)
        for model, (name, by) in enumerate(found.items())
        for place, caption in enumerate(by.captions[1:], start=2)
    ]
    return Card(
        (Shown(_picture(item)),),
        (Entry("GT", item.captions[sample]), *firsts),
        (*(Entry("GT, too", text) for text in others), *more),
    )


def _found_by(snapshot: Snapshot, items: list[CaptionedImage], chosen: list[int]) -> list[Ranked]:
    """What a model ranks first for the chosen images, among all captions."""
    model, view = snapshot.model, snapshot.architecture.view
    everything = Pairs(items, snapshot.vocabulary, view, memory=0)
    few = Pairs([items[number] for number in chosen], snapshot.vocabulary, view, memory=0)
    owners = torch.from_numpy(everything.image_of_caption)
    relevant = owners[None, :] == torch.tensor(chosen)[:, None]
    with full_precision():
        scores = model.similarity(embed_images(model, few), embed_captions(model, everything))
    return ranked(scores.cpu(), relevant, NUM_FOUND)


def _random_pairs(items: list[CaptionedImage], seed: int) -> list[CaptionedImage]:
    """A random batch of images with one caption each."""
    owners = np.repeat(np.arange(len(items)), [len(item.captions) for item in items])
    captions = [caption for item in items for caption in item.captions]
    chosen = pairs_of_different_images(owners, BATCH, seed).tolist()
    if len(chosen) < 2:
        raise WrongRequest("A single image has no negatives: use a split with more.")
    return [replace(items[owners[number]], captions=(captions[number],)) for number in chosen]


def _load_with_backbone(folder: Path) -> Snapshot:
    """A snapshot on the best device; one that was trained on features has no image encoder."""
    snapshot = Snapshot.load(folder)
    if snapshot.architecture.takes_features:
        raise WrongRequest(
            f"{folder} was trained on features and has no image encoder. Train one with a backbone: "
            "--set model.backbone=NAME --set model.weights=FILE"
        )
    device = best_device()
    prepare(device)
    snapshot.model.to(device)
    return snapshot


def _open_images(
    where: str, split: str, options: DataOptions, track: Track
) -> list[CaptionedImage]:
    data = open_checked(where, options, [split], track)
    if have_features(data.items):
        raise WrongRequest(
            f"{data.name} contains features, and this figure shows images. Use the collection that the "
            "features were made from."
        )
    return list(data.items)


def _picture(item: CaptionedImage) -> Any:
    picture = open_picture(item.path, PIXELS)
    picture.thumbnail((PIXELS, PIXELS))
    return picture


def _notes(folder: Path) -> dict[str, Any]:
    """The notes of a run's snapshot; empty while it has none."""
    return read_config(folder)[1] if (folder / CONFIG).is_file() else {}


def _losses(notes: dict[str, Any]) -> list[str]:
    return [phase["loss"] for phase in notes.get("recipe", {}).get("phases", ())]


def _names(folders: Sequence[Path], notes: Sequence[dict[str, Any]]) -> list[str]:
    """The names of the recipes if they differ; else those of the folders, with numbers."""
    names = [of_run.get("recipe", {}).get("name") or "" for of_run in notes]
    if not all(names) or len(set(names)) < len(names):
        names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return names
