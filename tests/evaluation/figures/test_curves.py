import io

import numpy as np
import pytest
from PIL import Image

from vsepp.equations.ranking import Recall
from vsepp.evaluation.behaviour import Behaviour
from vsepp.evaluation.figures.curves import (
    DPI,
    WIDTH,
    LearningCurve,
    Point,
    _without_tails,
    draw_curves,
)
from vsepp.evaluation.figures.palette import DARK, LIGHT
from vsepp.evaluation.retrieval import Retrieval


def a_behaviour(epoch: int, edges: tuple[float, float] = (-1, 1)) -> Behaviour:
    counts = [int(1000 * np.exp(-((place - 40 - 3 * epoch) ** 2) / 50)) for place in range(80)]
    return Behaviour(0.2, 128, 512, 200 / epoch, 2 - epoch / 10, edges, counts, counts, counts)


def a_curve(name: str, num_epochs: int, behaves: bool = True, slow: float = 1.0) -> LearningCurve:
    points = []
    for epoch in range(1, num_epochs + 1):
        recall = Recall(10.0 * epoch % 100, 50, 70, 3, 9.0)
        result = Retrieval(recall, recall, "full", 100, 500)
        seen = a_behaviour(epoch) if behaves else None
        loss = "sum_of_hinges" if epoch < 3 else "max_of_hinges"
        points.append(Point(epoch, slow * 20.0 * epoch, 1 / epoch, loss, result, seen))
    return LearningCurve(name, points)


def drawn(curves, palette=LIGHT) -> np.ndarray:
    stream = io.BytesIO()
    draw_curves(curves, stream, palette)
    return np.asarray(Image.open(stream).convert("RGB"))


def has_colour(pixels: np.ndarray, colour: str) -> bool:
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return bool((pixels == wanted).all(axis=-1).any())


@pytest.mark.slow
def test_every_run_has_its_own_colour_and_mark():
    curves = [a_curve("VSE0", 4), a_curve("VSE++", 6)]
    pixels = drawn(curves)
    assert pixels.shape[1] == WIDTH * DPI
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert has_colour(pixels, LIGHT.models[0])
    assert has_colour(pixels, LIGHT.models[1])
    assert not has_colour(pixels, LIGHT.models[2])


@pytest.mark.slow
def test_on_dark_paper():
    pixels = drawn([a_curve("VSE0", 4)], DARK)
    assert has_colour(pixels[:1, :1], DARK.paper)
    assert has_colour(pixels, DARK.models[0])
    assert not has_colour(pixels, LIGHT.models[0])


@pytest.mark.slow
def test_panels_without_numbers_are_left_out():
    full = drawn([a_curve("VSE0", 4)])
    older = drawn([a_curve("VSE0", 4, behaves=False)])
    mixed = drawn([a_curve("VSE0", 4, behaves=False), a_curve("VSE++", 4)])
    assert older.shape[0] < 0.6 * full.shape[0]
    assert mixed.shape == full.shape


@pytest.mark.slow
@pytest.mark.parametrize(
    "curves",
    [
        [a_curve("one epoch", 1)],
        [a_curve("$unfinished formula", 3), a_curve("zeros", 3)],
        [a_curve("hours", 45, slow=900), a_curve("minutes", 45, slow=9)],
        [a_curve(f"run {number}", 5) for number in range(8)],
        [
            LearningCurve(
                "empty", [*a_curve("x", 2, behaves=False).points, *a_curve("x", 3).points[2:]]
            )
        ],
    ],
    ids=["one epoch", "formula", "long", "many", "resumed after an update"],
)
def test_every_shape_of_run_is_drawn(curves):
    assert drawn(curves).std() > 10


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ([0, 0, 0], range(0)),
        ([0, 5, 0], range(1, 2)),
        ([0, 1, 2, 0, 1, 0], range(1, 5)),
        ([1, 0, 500, 500, 0, 1], range(2, 4)),
        ([1000], range(1)),
    ],
)
def test_histograms_lose_only_their_thinnest_tails(counts, shown):
    assert _without_tails(counts) == shown


def test_histograms_may_be_empty_or_of_any_width():
    nothing = Behaviour(0.2, 4, 4, 0.0, 0.0, (-1, 1), [0] * 80, [0] * 80, [0] * 80)
    wide = a_curve("VSE0", 2)
    points = [
        Point(p.epoch, p.seconds, p.loss, p.loss_name, p.validation, seen)
        for p, seen in zip(wide.points, (nothing, a_behaviour(2, (-16, 16))), strict=True)
    ]
    assert drawn([LearningCurve("VSE0", points), wide]).std() > 10
