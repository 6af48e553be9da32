import shlex

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vsepp.data.collections import open_data
from vsepp.equations.losses import LOSSES, sum_of_hinges
from vsepp.errors import WorkFailed
from vsepp.evaluation.collapse import concentration, has_collapsed, rsum_by_chance
from vsepp.experiments.progress.health import check_health, check_weights
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run
from vsepp.snapshots.snapshot import Snapshot
from vsepp.training.loop import Epoch

SMALL = ("batch_size=64", "model.dim=32", "model.word_dim=16", "loss.margin=0.2")


@pytest.fixture(scope="module")
def larger_world():
    return open_data("shapes:320")


def remedy(message):
    """The change that a message tells one to type."""
    words = shlex.split(message.splitlines()[-1])
    assert words[0] == "--set"
    return words[1]


def test_concentration_by_hand():
    assert concentration(torch.tensor([[2.0, 0.0], [9.0, 0.0]])) == pytest.approx(1)
    assert concentration(torch.tensor([[1.0, 0.0], [-3.0, 0.0]])) == pytest.approx(0)
    assert concentration(torch.tensor([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(0.5**0.5)


@given(st.integers(0, 100))
def test_collapse_takes_both_sides(seed):
    generator = torch.Generator().manual_seed(seed)
    spread = torch.randn(40, 8, generator=generator)
    point = torch.randn(8, generator=generator) + 1e-3 * torch.randn(40, 8, generator=generator)
    assert has_collapsed(point, point)
    assert not has_collapsed(point, spread)
    assert not has_collapsed(spread, point)
    assert not has_collapsed(spread, spread)


def stopped_in_epoch(recalls, before=()):
    """The epoch in which a run is stopped whose vectors, spread before, lie on one point; 0: in none."""
    point, spread = torch.ones(1_000, 8), torch.eye(1_000, 8)
    recipe, state = Recipe.load("demo-vse++", ["phases.0.loss=max_of_hinges"]), (0.0, 0)
    places = [*((rsum, spread) for rsum in before), *((rsum, point) for rsum in recalls)]
    for number, (rsum, vectors) in enumerate(places, 1):
        try:
            epoch = Epoch(number, 1, 1e-3, 0.4, 30_000, 1.0)
            state = check_health(recipe, state, epoch, 235, vectors, vectors, rsum)
        except WorkFailed:
            return number
    return 0


def test_a_run_on_one_point_goes_on_while_its_recall_rises():
    # Seen on Flickr8k, where such runs took off in the end.
    assert not stopped_in_epoch([12, 25, 43, 93, 131, 170, 196, 215, 220])
    assert not stopped_in_epoch([125, 132, 136, 139, 143, 146, 150])  # little by little
    assert not stopped_in_epoch([92, 99, 105, 111, 118], before=[83, 140])  # since it lies there


def test_a_run_on_one_point_whose_recall_stays_is_stopped():
    assert stopped_in_epoch([3.2, 3.3, 3.1, 3.2]) == 4
    assert stopped_in_epoch([5, 8.9, 8, 6.7, 8.5]) == 5
    assert stopped_in_epoch([9, 8, 9, 8], before=[83, 140]) == 6


def test_a_run_on_one_point_that_finds_more_than_chance_goes_on():
    # Seen on Flickr8k: vectors this close to each other rank nearly as well as any.
    assert not stopped_in_epoch([254, 253, 254, 252, 253, 254])
    assert not stopped_in_epoch([43, 40, 42, 41, 39])
    assert rsum_by_chance(1_000) == pytest.approx(3.2)
    assert rsum_by_chance(2) == pytest.approx(2 * (50 + 100 + 100))


@pytest.mark.parametrize("side", [0, 1])
def test_vectors_that_are_no_numbers_stop_a_run_whatever_its_loss_says(side):
    recipe = Recipe.load("demo-vse++")
    vectors = [torch.eye(10, 8), torch.eye(10, 8)]
    vectors[side][3, 2] = torch.nan
    with pytest.raises(
        WorkFailed, match="A vector of the validation split is NaN or infinite"
    ) as why:
        check_health(recipe, (0.0, 0), Epoch(1, 1, 1e-3, 0.0, 300, 1.0), 3, *vectors, 10.0)
    assert "learning_rate = 0.0002" in remedy(str(why.value))  # a tenth of the recipe's


def test_a_weight_that_is_no_number_stops_a_run():
    recipe, weights = Recipe.load("demo-vse++"), [torch.ones(3), torch.ones(2, 2)]
    check_weights(recipe, Epoch(1, 1, 1e-3, 0.0, 300, 1.0), weights)
    weights[1][0, 1] = torch.nan
    with pytest.raises(WorkFailed, match="A weight is NaN or infinite after epoch 1"):
        check_weights(recipe, Epoch(1, 1, 1e-3, 0.0, 300, 1.0), weights)


@pytest.mark.slow
def test_a_model_of_nan_is_never_kept_not_even_as_the_first(world, tmp_path, monkeypatch):
    """A loss that takes NaN for 0 hides that the first epoch went wrong."""

    def blind(scores, margin=0.2, negatives=None):
        return sum_of_hinges(scores, margin, negatives).nan_to_num()

    monkeypatch.setitem(LOSSES, "sum_of_hinges", blind)
    wild = ["phases.0.epochs=1", "phases.0.learning_rate=1e38", "gradient_clip=0"]
    with pytest.raises(WorkFailed, match="NaN or infinite after epoch 1"):
        run(Recipe.load("demo-vse++", [*SMALL, *wild]), world, tmp_path)
    assert not list(tmp_path.glob("*.safetensors")) and not (tmp_path / "config.json").exists()


@pytest.mark.slow
def test_a_collapsing_run_is_stopped_and_the_remedy_works(tmp_path):
    world = open_data("shapes:480")  # large enough to learn something that held-out scenes confirm
    small = (*SMALL, "batch_size=16")
    headlong = 'phases=[{epochs = 40, learning_rate = 5e-3, loss = "max_of_hinges"}]'
    with pytest.raises(WorkFailed, match="collapsed by epoch") as stopped:
        run(Recipe.load("demo-vse++", [*small, headlong]), world, tmp_path / "collapsed")
    change = remedy(str(stopped.value)).replace("epochs = 40", "epochs = 2")  # for the test's sake
    cured = run(Recipe.load("demo-vse++", [*small, change]), world, tmp_path / "cured")
    assert cured.validation.rsum > 110  # 60 scenes; chance: about 53


@pytest.mark.slow
def test_a_young_model_on_one_point_is_left_alone(larger_world, tmp_path):
    young = 'phases=[{epochs = 2, learning_rate = 1e-4, loss = "max_of_hinges"}]'
    run(Recipe.load("demo-vse++", [*SMALL, young]), larger_world, tmp_path)
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_good_snapshot(larger_world, tmp_path):
    wild = [
        "phases.0.epochs=1",
        "phases.1.learning_rate=1e38",
        "phases.2.epochs=0",
        "gradient_clip=0",
    ]
    with pytest.raises(WorkFailed, match="NaN or infinite") as stopped:
        run(Recipe.load("demo-vse++", [*SMALL, *wild]), larger_world, tmp_path)
    phases = Recipe.load("demo-vse++", [*SMALL, remedy(str(stopped.value))]).phases
    assert phases[0].learning_rate == 2e-3
    assert phases[1].learning_rate == pytest.approx(1e37)
    assert Snapshot.load(tmp_path).notes["epoch"] == 1
    assert (tmp_path / "image.onnx").exists()
