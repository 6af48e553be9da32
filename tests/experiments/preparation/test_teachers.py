"""Distillation (`teachers`): whose scores a run imitates, and what it does with them."""

import re
import shutil
from dataclasses import replace

import pytest
import torch

from tests.experiments.test_fingerprint import changed_byte, of
from tests.layouts import some_items, write_features
from tests.models import SCENES
from vsepp.data.collections import open_checked
from vsepp.data.pictures import View
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import distillation
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.preparation.teachers import check_teachers, teacher_of
from vsepp.experiments.progress.health import check_health
from vsepp.experiments.provenance import differences
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run, set_up
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot

CPU = torch.device("cpu")
SHORT = ("batch_size=32", "model.dim=16", "model.word_dim=8", "graphs=false", "max_epochs=1")
TAUGHT = (
    *SHORT,
    f"teachers=['{SCENES}']",
    "loss.teacher_weight=20",
    "loss.teacher_temperature=0.2",
)


def save_model(folder, captions=("a red circle", "a blue square"), **design):
    """An untrained one that knows the words of these captions."""
    torch.manual_seed(5)
    vocabulary = Vocabulary.learn(captions, 1)
    keys = {"size": 32, "resize": 40, "dim": 24, "word_dim": 8, "num_words": len(vocabulary)}
    plan = Architecture(**(keys | design))
    return Snapshot(JointEmbedding.build(plan), vocabulary, plan).save(folder, graphs=False)


def pairs_of(world, view=None):
    """As a student reads them: in words of its own."""
    items = world.split("train")[:30]
    words = Vocabulary.learn((text for item in items for text in item.captions), 1)
    return Pairs(items, words, view or View(48, 56))


def scores_of(folder, items):
    snapshot = Snapshot.load(folder)
    own = Pairs(items, snapshot.vocabulary, snapshot.architecture.view)
    images, captions = embed(snapshot.model, own)
    return images @ captions.T


def all_scores(teacher):
    return teacher.images @ teacher.captions.T


# ---- whose scores


@pytest.mark.parametrize("number", [1, 2, 3])
def test_several_teachers_are_the_mean_of_their_scores(world, tmp_path, number):
    """Each with its own words, images and dimensions."""
    pairs = pairs_of(world)
    folders = [
        SCENES,
        save_model(tmp_path / "few words"),
        save_model(tmp_path / "squeezed", dim=40, square=True, normalize_images=False),
    ][:number]
    ours = teacher_of([str(folder) for folder in folders], pairs, world, CPU)
    expected = sum(scores_of(folder, pairs.items) for folder in folders) / number
    torch.testing.assert_close(all_scores(ours), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "view",
    [
        View(64, 64),  # the teacher's own
        View(64, 64, least_area=0.4),
        View(40, 64),  # data.crop_size
        View(64, 64, square=True),
        View(64, 64, crop_from="original"),
        View(64, 64, crops=10),
    ],
)
def test_a_teacher_sees_whole_images_whatever_is_learned_from(world, view):
    pairs = pairs_of(world, view)
    ours = teacher_of([str(SCENES)], pairs, world, CPU)
    torch.testing.assert_close(all_scores(ours), scores_of(SCENES, pairs.items), rtol=0, atol=1e-6)


def test_a_teacher_of_features_knows_their_net(tmp_path):
    """It gets features where the student does, if they are those of its net."""
    folder = write_features(tmp_path / "data", some_items(16))
    data = open_checked(str(folder))
    width = data.items[0].path.table.rows.shape[1]
    teachers = {
        name: save_model(tmp_path / name, backbone=f"features:{count}")
        for name, count in (("fits", width), ("other", width + 1))
    }
    pairs = Pairs(data.split("train"), Vocabulary.learn(["a"]))
    ours = teacher_of([str(teachers["fits"])], pairs, data, CPU)
    assert torch.equal(all_scores(ours), scores_of(teachers["fits"], pairs.items))
    with pytest.raises(
        WrongRequest, match=r"teachers: .*other cannot see these data\. .* does not fit"
    ):
        teacher_of([str(teachers["other"])], pairs, data, CPU)
    with pytest.raises(WrongRequest, match=r"teachers: .* does not fit small"):
        teacher_of([str(SCENES)], pairs, data, CPU)


def test_a_teacher_of_features_cannot_see_images(world, tmp_path):
    folder = save_model(tmp_path, backbone="features:24")
    with pytest.raises(
        WrongRequest, match=r"teachers: .* cannot see these data\. .*contains images"
    ):
        teacher_of([str(folder)], pairs_of(world), world, CPU)


# ---- what is refused


@pytest.mark.parametrize("name", ["nowhere", "demo-vse++", ""])
def test_a_teacher_that_is_no_snapshot_is_refused(world, name):
    recipe = Recipe.load("demo-vse++", [*SHORT, f"teachers=['{name}']"])
    with pytest.raises(WrongRequest, match=f"teachers takes folders.*'{re.escape(name)}' is none"):
        set_up(recipe, world, CPU)


def test_a_teacher_that_is_no_inner_product_is_refused_before_anything_is_computed(tmp_path):
    design = {"similarity": "order_similarity", "absolute": True}
    folder = save_model(tmp_path, **design)
    with pytest.raises(WrongRequest, match=r"compares by order_similarity.*Choose models with"):
        check_teachers([str(SCENES), str(folder)])


def test_a_teacher_without_weights_is_refused_in_a_sentence(world, tmp_path):
    folder = save_model(tmp_path / "teacher")
    (folder / "model.safetensors").unlink()
    recipe = Recipe.load("demo-vse++", [*SHORT, f"teachers=['{folder}']"])
    with pytest.raises(WrongRequest, match=r"model\.safetensors does not fit"):
        run(recipe, world, tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("teachers=runs/a", "teachers takes a list"),
        ("teachers=[1]", "teachers.0 takes text"),
        ("loss.teacher_weight=-1", "teacher_weight takes 0 or more"),
        ("loss.teacher_temperature=0", "teacher_temperature takes more than 0"),
    ],
)
def test_values_that_make_no_sense_are_refused(change, message):
    with pytest.raises(WrongRequest, match=message):
        Recipe.load("demo-vse++", [change])


def test_a_closed_form_has_no_teachers():
    with pytest.raises(WrongRequest, match="teachers are imitated by gradient steps"):
        Recipe.load("cca", [f"teachers=['{SCENES}']"])


def test_a_recipe_does_not_hand_its_teachers_to_the_one_that_it_starts_from(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text('start_from = "cca"\n[[phases]]\nepochs = 1\nlearning_rate = 1e-3\n')
    assert Recipe.load(str(own), [f"teachers=['{SCENES}']"]).teachers == (str(SCENES),)


# ---- a run


def test_teachers_count_by_their_weights_and_not_by_their_place(tmp_path):
    def with_teacher(*folders):
        named = ", ".join(f"'{folder}'" for folder in folders)
        return of("scratch", "shapes:64", f"teachers=[{named}]")

    copied = shutil.copytree(SCENES, tmp_path / "copy", copy_function=shutil.copyfile)
    before = with_teacher(SCENES)
    assert differences(before, with_teacher(copied)) == []
    for other in (with_teacher(), with_teacher(SCENES, copied)):
        (changed,) = differences(before, other)
        assert changed.startswith("teachers (was ")
    changed_byte(copied / "model.safetensors")
    assert [text.partition(" ")[0] for text in differences(before, with_teacher(copied))] == [
        "teachers"
    ]


@pytest.mark.slow
def test_a_run_imitates_its_teacher_and_is_resumed_with_no_other(world, tmp_path, monkeypatch):
    keys = ["batch_size=32", "max_epochs=2", "graphs=false", f"teachers=['{SCENES}']"]
    recipe = Recipe.load("demo-vse++", keys)
    runs = [
        run(one, world, tmp_path / name)
        for name, one in (("whole", recipe), ("alone", replace(recipe, teachers=())))
    ]
    whole = runs[0].folder
    items = world.split("train")[:60]
    theirs = scores_of(SCENES, items)[:, ::5]  # one caption of each
    apart = [
        float(distillation(scores_of(each.folder, items)[:, ::5], theirs).mean()) for each in runs
    ]
    assert apart[0] < 0.8 * apart[1]
    assert runs[0].validation.rsum > runs[1].validation.rsum  # its teacher has seen more images

    def interrupted(*seen):
        if seen[2].number == 2:
            raise KeyboardInterrupt
        return check_health(*seen)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("vsepp.experiments.run.check_health", interrupted)
        run(replace(recipe, save_every=0), world, tmp_path / "stopped")
    other = save_model(tmp_path / "other")
    with pytest.raises(WrongRequest, match="something changed: teachers"):
        run(replace(recipe, teachers=(str(other),)), world, tmp_path / "stopped", resume=True)
    resumed = run(recipe, world, tmp_path / "stopped", resume=True).folder
    ours, expected = (Snapshot.load(folder).model.state_dict() for folder in (resumed, whole))
    assert all(torch.equal(ours[name], expected[name]) for name in expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        ["model.similarity=order_similarity", "model.absolute=true"],
        ["data.short_captions=0.5", "model.word_dropout=0.1"],
        ["chunk_size=8", "model.fixed_statistics=true", "precision=float64"],
        ["data.captions_per_epoch=1", "loss.nested=[8]", "averaging=0.9"],
    ],
)
def test_other_keys_can_be_combined_with_teachers(tmp_path, changes):
    world = open_checked("shapes:48")
    recipe = Recipe.load(
        "demo-vse++", [*TAUGHT, *changes, "phases.1.epochs=0", "phases.2.epochs=0"]
    )
    untaught = replace(recipe, teachers=())
    models = [
        Snapshot.load(run(one, world, tmp_path / str(len(one.teachers))).folder).model
        for one in (recipe, untaught)
    ]
    weights = [model.image_encoder.linear.weight for model in models]
    assert torch.isfinite(weights[0]).all()
    assert not torch.equal(*weights)
