import pytest

from vsepp.errors import WrongRequest
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.recipes.keys import GRID, RECIPES, shipped_tables


def test_a_recipe_by_name_with_changes():
    changes = ["loss.margin=0.1", "phases.1.epochs=7", "model.backbone=resnet18", "batch_size=32"]
    recipe = Recipe.load("scratch", [*changes, "data.train=['train', 'restval']"])
    assert recipe.name == "scratch"
    assert recipe.loss.margin == 0.1
    assert recipe.phases[1].epochs == 7
    assert recipe.model.backbone == "resnet18"
    assert recipe.batch_size == 32
    assert recipe.data.train == ("train", "restval")


def test_a_recipe_from_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("model.finetune = true\nphases = [{ epochs = 1, learning_rate = 1 }]\n")
    recipe = Recipe.load(str(file))
    assert recipe.phases[0].learning_rate == 1.0
    assert recipe.loss.margin == 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("loss.margn=0.1", r"Unknown key loss\.margn\. Known: margin, reduction"),
        ("epochs=3", "Unknown key epochs. Known: phases"),
        ("loss.margin=wide", "loss.margin takes a number, not 'wide'"),
        ("batch_size=1.5", "batch_size takes a whole number, not 1.5"),
        ("model.finetune=1", "model.finetune takes true or false, not 1"),
        ("model.backbone=5", "model.backbone takes text, not 5"),
        (
            "data.crop=corner",
            "data.crop takes center or ten or random or random_resized, not 'corner'",
        ),
        ("phases.9.epochs=1", "9 is not an item; there are 0 to 2"),
        ("phases=3", "phases takes a list, not 3"),
        ("loss=3", "loss takes keys, not 3"),
        ("batch_size.x=3", "batch_size is a value and has no keys"),
        ("loss.margin", "write it as KEY=VALUE"),
        ("batch_size=1", "at least 2"),
        ("seed=-1", "0 or more"),
        ("phases.0.epochs=-1", "0 or more"),
        ("model.size=224", "larger than model.resize"),
        ("model.finetune=false", "set model.finetune=true"),
        ("phases=[{epochs = 0, learning_rate = 1.0}]", "no epochs"),
        ("data.captions_per_epoch=-1", "0 or more"),
        ("model.word_dropout=1", "0 to less than 1"),
        ("data.crop_size=-1", "0 or more"),
        ("data.crop_area=0", "more than 0"),
        ("data.words=spaces", "data.words takes unicode or nltk-3.2 or nltk-3.10, not 'spaces'"),
        ("model.pooling=min", "model.pooling takes last or mean or max or gpo, not 'min'"),
    ],
)
def test_a_wrong_change_is_explained(change, message):
    with pytest.raises(WrongRequest, match=message):
        Recipe.load("scratch", [change])


def test_a_net_is_fine_tuned_in_part_only_where_it_is_fine_tuned():
    part = "model.finetune_from=features.3"
    with pytest.raises(WrongRequest, match=r"set model\.finetune=true"):
        Recipe.load("default", [part, "model.finetune=false"])
    assert Recipe.load("default", [part, "model.finetune=true"]).model.finetune_from == "features.3"


def test_random_crops_alone_have_a_size_of_their_own():
    for crop, size, complaint in (
        ("center", 32, r"set data\.crop=random_resized"),
        ("random", 999, "larger than model.resize"),
    ):
        with pytest.raises(WrongRequest, match=complaint):
            Recipe.load("scratch", [f"data.crop={crop}", f"data.crop_size={size}"])
    assert Recipe.load("scratch", ["data.crop_size=999"]).data.crop_size == 999  # enlarged


def test_a_bag_of_words_has_no_order_to_read():
    for change in ("model.pooling=max", "model.bidirectional=true"):
        with pytest.raises(WrongRequest, match=r"set model\.caption_encoder=gru"):
            Recipe.load("scratch", ["model.caption_encoder=bag", change])


def test_wrong_files_are_explained(tmp_path):
    with pytest.raises(WrongRequest, match="one of: cca, default, default-ft, demo-vse"):
        Recipe.load("nowhere")
    broken = tmp_path / "broken.toml"
    broken.write_text("phases = [")
    with pytest.raises(WrongRequest, match="is not TOML"):
        Recipe.load(str(broken))
    broken.write_text("batch_size = 3")
    with pytest.raises(WrongRequest, match="has no epochs"):
        Recipe.load(str(broken))
    broken.write_text("phases = [{ epochs = 3 }]")
    with pytest.raises(WrongRequest, match=r"phases\.0: missing.*learning_rate"):
        Recipe.load(str(broken))


def test_every_recipe_of_ours_loads_and_opens_with_its_command():
    for name in shipped_tables():
        recipe = Recipe.load(name)
        assert recipe.phases or recipe.trains_nothing
    files = list(RECIPES.glob("*.toml"))
    for file in files:
        first = file.read_text().splitlines()[0]
        assert first.startswith("# ")
        assert "vsepp " in first
        assert len(file.read_text().splitlines()) < 15 or file.stem == GRID
    assert len(files) == 44


def test_the_grid_is_every_model_with_every_crop():
    models, crops = (
        ("vse0", "vse0-norms", "vse++", "order0", "order++"),
        ("1c", "10c", "rc", "rc-ft"),
    )
    names = {f"f8k-{model}-{crop}" for model in models for crop in crops}
    assert names | {"f8k-best", "f8k-best-rc"} == {
        n for n in shipped_tables() if n.startswith("f8k")
    }
    one = Recipe.load("f8k-order++-rc-ft")
    assert (one.title, one.start_from) == ("Order++, RC, fine-tuned", "f8k-order++-rc")
    assert one.model.finetune and one.model.similarity == "order_similarity_rooted"
    assert one.phases[0].loss == "max_of_hinges" and one.loss.mask_same_image


def test_a_recipe_extends_another(tmp_path):
    tuned, plain = Recipe.load("default-ft"), Recipe.load("default")
    assert (tuned.phases, tuned.loss, tuned.data.min_count) == (plain.phases, plain.loss, 2)
    assert (tuned.data.crop, tuned.net_share) == ("random_resized", 0.3)
    own = tmp_path / "own.toml"
    own.write_text('extends = "scratch"\nloss = { margin = 0.1 }\n')
    recipe = Recipe.load(str(own), ["batch_size=7"])
    assert (recipe.name, recipe.loss.margin, recipe.batch_size) == ("own", 0.1, 7)
    assert recipe.phases == Recipe.load("scratch").phases
    own.write_text('extends = "nothing"\n')
    with pytest.raises(WrongRequest, match="There is no recipe 'nothing'"):
        Recipe.load(str(own))


def test_the_demos_models_differ_in_what_they_say_alone():
    """Same net, batches, steps and learning rates."""
    plain, norms, hard = (
        Recipe.load(name).as_dict() for name in ("demo-vse0", "demo-vse0-both-norms", "demo-vse++")
    )
    assert plain["model"].pop("normalize_images") is False
    assert norms["model"].pop("normalize_images") is True
    assert hard["model"].pop("normalize_images") is True
    losses = [[phase.pop("loss") for phase in recipe["phases"]] for recipe in (plain, norms, hard)]
    assert set(losses[0]) == set(losses[1]) == {"sum_of_hinges"}
    assert losses[2][0] == "sum_of_hinges"
    assert set(losses[2][1:]) == {"max_of_hinges"}
    for recipe in (plain, norms, hard):
        recipe.pop("name")
    assert plain == norms == hard


def test_the_papers_rows_crop_and_cut_words_as_the_release_did():
    rows = [Recipe.load(name) for name in shipped_tables() if name[0].isdecimal()]
    trained = [row for row in rows if not row.model_of]
    assert {row.data.words for row in trained} == {"nltk-3.2"}
    random = [row for row in trained if row.data.crop == "random_resized"]
    assert {row.data.crop_from for row in random} == {"original"}
    assert (len(rows), len(trained), len(random)) == (28, 26, 18)
    ours = [Recipe.load(name) for name in shipped_tables() if not name[0].isdecimal()]
    assert {recipe.data.words for recipe in ours} == {"unicode"}
    assert [recipe.name for recipe in ours if recipe.data.crop_from == "original"] == ["world-vit"]
    assert len(ours) == 35


def test_originals_are_for_the_releases_crops_alone():
    for row, changes, complaint in (
        ("1.6", ["data.crop_from=original"], r"set data\.crop_from=resized"),
        ("1.7", ["model.square=true"], r"set .*data\.crop_squeezed=false"),
    ):
        with pytest.raises(WrongRequest, match=complaint):
            Recipe.load(row, changes)
    free = ["model.square=true", "data.crop_squeezed=false"]
    assert Recipe.load("1.7", free).data.crop_from == "original"


def test_the_text_is_followed_where_it_is_asked_for():
    paper = ["fidelity=paper"]
    for row in ("1.7", "3.9", "4.5"):
        recipe = Recipe.of_row(row, paper)
        assert recipe.loss.reduction == "mean"
        assert recipe.gradient_clip == 0
        assert recipe.model.square
        assert recipe.model.project_captions
        assert not recipe.model.normalize_features
    random = Recipe.of_row("1.7", paper).data
    assert (random.crop, random.crop_from, random.validate_images) == ("random", "resized", 0)
    assert Recipe.of_row("1.7").data.validate_images == 1000
    vse0 = Recipe.of_row("3.9", paper)
    assert not vse0.model.normalize_images  # Sec. 3: VSE0 keeps the norm of images
    assert vse0.data.validate_images == 1000
    assert Recipe.of_row("3.9").model.normalize_images
    assert Recipe.of_row("4.5", paper).model.similarity == "order_similarity"
    assert Recipe.of_row("3.9", [*paper, "data.validate_images=7"]).data.validate_images == 7
