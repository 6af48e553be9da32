"""Probes: published files in their real form, the built-in world, and captions with words exchanged."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vsepp.data.captioned import CaptionedImage
from vsepp.data.collections import open_data
from vsepp.data.shapes import Scene
from vsepp.errors import WrongRequest
from vsepp.evaluation.probes.generated import KINDS, caption_probes, world_probes
from vsepp.evaluation.probes.probe import CroppedPicture, Probe, accuracies
from vsepp.evaluation.probes.published import beside, coco_picture, read_probes


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.jpg", "b.jpg", "ex_0_img_0.png", "ex_0_img_1.png"):
        Image.new("RGB", (40, 30), "red").save(folder / name)
    return folder


def test_sugar_crepe(tmp_path: Path, pictures: Path) -> None:
    entry = {"caption": "a cat", "negative_caption": "a dog"}
    folder = tmp_path / "sugar"
    folder.mkdir()
    content = {"0": {"filename": "a.jpg", **entry}, "1": {"filename": "missing.jpg", **entry}}
    (folder / "replace_obj.json").write_text(json.dumps(content))
    (folder / "swap_att.json").write_text(json.dumps({"0": {"filename": "b.jpg", **entry}}))
    found = read_probes(folder, pictures).probes
    assert [probe.kind for probe in found] == ["object (replace)", "attribute (swap)"]
    assert found[0].true == "a cat" and found[0].false == ("a dog",)


def test_aro_looks_at_a_box(tmp_path: Path, pictures: Path) -> None:
    entry = {
        "image_path": "a.jpg", "true_caption": "the cat is on the mat", "relation_name": "on",
        "false_caption": "the mat is on the cat", "bbox_x": 5, "bbox_y": 6, "bbox_w": 20, "bbox_h": 10,
    }  # fmt: skip
    file = tmp_path / "visual_genome_relation.json"
    file.write_text(json.dumps([entry]))
    (probe,) = read_probes(file, pictures).probes
    assert probe.kind == "relation (ARO)"
    assert not isinstance(probe.picture, Path)
    assert probe.picture.open(8).size == (20, 10)


def test_foil_joins_a_caption_with_its_foils(tmp_path: Path, pictures: Path) -> None:
    """By `id`, which a caption shares with its foils, whatever their `foil_id`s are."""
    entries = [
        {"id": 50, "foil_id": 1, "caption": "a cat", "foil": False, "target_word": "ORIG", "foil_word": "ORIG"},
        {"id": 50, "foil_id": 2, "caption": "a dog", "foil": True, "target_word": "cat", "foil_word": "dog"},
        {"id": 50, "foil_id": 3, "caption": "a cow", "foil": True, "target_word": "cat", "foil_word": "cow"},
        {"id": 51, "foil_id": 4, "caption": "a bus", "foil": True, "target_word": "car", "foil_word": "bus"},
    ]  # fmt: skip
    content = {
        "images": [{"id": 7, "file_name": "a.jpg"}],
        "annotations": [{"image_id": 7, **entry} for entry in entries],
    }
    file = tmp_path / "foilv1.0_test_2017.json"
    file.write_text(json.dumps(content))
    found = read_probes(file, pictures).probes
    assert [(probe.true, probe.false) for probe in found] == [
        ("a cat", ("a dog",)),
        ("a cat", ("a cow",)),
    ]
    assert {probe.kind for probe in found} == {"object (FOIL)"}


def test_negclip(tmp_path: Path, pictures: Path) -> None:
    file = tmp_path / "valid_neg_clip.tsv"
    file.write_text(
        "\ttitle\tfilepath\tneg_caption\tneg_image\n"
        "0\tA cat on a mat.\tcoco/val2014/a.jpg\t['A mat on a cat .', 'A mat on a cat .']\t[1]\n"
        "1\t\"A mat\u2028\nunder a cat.\"\tcoco/val2014/b.jpg\t['A cat under a mat .']\t[2]\n",
        encoding="utf-8",
    )
    first, second = read_probes(file, pictures).probes
    assert first.false == ("A mat on a cat .",)
    assert second.true == "A mat\u2028\nunder a cat."  # quoted, over two lines


def test_photos_of_coco_are_found_under_the_names_of_both_editions(pictures: Path) -> None:
    for name in ("COCO_val2014_000000000007.jpg", "000000000008.jpg"):
        (pictures / name).touch()
    found = pictures / "COCO_val2014_000000000007.jpg"
    assert coco_picture(pictures, "000000000007.jpg") == found
    assert coco_picture(pictures, found.name) == found
    assert coco_picture(pictures, "COCO_train2014_000000000008.jpg").name == "000000000008.jpg"
    for missing in ("000000000009.jpg", "a.jpg", "other.png"):
        assert coco_picture(pictures, missing) == pictures / missing


def test_winoground_has_three_scores(tmp_path: Path, pictures: Path) -> None:
    line = {
        "id": 0, "image_0": "ex_0_img_0", "image_1": "ex_0_img_1", "collapsed_tag": "Object",
        "caption_0": "old kisses young", "caption_1": "young kisses old",
    }  # fmt: skip
    file = tmp_path / "examples.jsonl"
    file.write_text(json.dumps(line) + "\n")
    probes = read_probes(file, pictures).probes
    assert [probe.true for probe in probes] == ["old kisses young", "young kisses old"]
    # image 0: own .6, other .5; image 1: own .7, other .65: captions are told apart, images are not
    found = accuracies(probes, [np.array([0.6, 0.5]), np.array([0.7, 0.65])])
    assert found["winoground text"].value == 100
    assert found["winoground image"].value == 0  # caption 0 fits image 1 better: .65 > .6
    assert found["winoground group"].value == 0
    assert {name: round(one.chance, 1) for name, one in found.items()} == {
        "object (winoground)": 50, "winoground text": 25, "winoground image": 25, "winoground group": 16.7,
    }  # fmt: skip


def test_chance_is_what_random_scores_reach() -> None:
    generator = np.random.default_rng(0)
    pairs = [Probe("order", Path(f"{n}.png"), "a", ("b",), str(n // 2)) for n in range(8000)]
    more = [Probe("many", Path(f"{n}.png"), "a", ("b", "c", "d")) for n in range(4000)]
    scores = [generator.random(1 + len(probe.false)) for probe in (*pairs, *more)]
    found = accuracies([*pairs, *more], scores, resamples=100)
    assert found["many"].chance == 25
    for one in found.values():
        assert abs(one.value - one.chance) < 4 * one.standard_error


def test_probes_of_one_photo_are_not_independent() -> None:
    """Ten equal probes of each photo are as uncertain as one of each."""
    passed = np.random.default_rng(0).random(60) < 0.5
    probes = [Probe("object", Path(f"{n}.jpg"), "a", ("b",)) for n in range(60)]
    scores = [np.array([float(one), 0.5]) for one in passed]
    once = accuracies(probes, scores)["object"]
    box = [
        CroppedPicture(Path(f"{n}.jpg"), (0, 0, side, 9)) for n in range(60) for side in range(10)
    ]
    many = [Probe("object", one, "a", ("b",)) for one in box]
    ten = accuracies(many, [row for row in scores for _ in range(10)])["object"]
    assert (ten.low, ten.high) == pytest.approx((once.low, once.high))
    assert (ten.probes, once.probes) == (600, 60)


def test_equal_scores_are_not_passed() -> None:
    probe = Probe("object", Path("a.jpg"), "a cat", ("a dog", "a cow"))
    scores = [np.array([1.0, 0.0, 0.5]), np.array([1.0, 1.0, 0.5]), np.array([np.nan, 0, 0])]
    assert accuracies(3 * [probe], scores)["object"].value == pytest.approx(100 / 3)


def test_unknown_files_and_missing_pictures_are_named(tmp_path: Path, pictures: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"a": {"b": 1}}')
    with pytest.raises(WrongRequest, match="none of the files that are known"):
        read_probes(file, pictures)
    file.write_text('{"0": {"filename": "no.jpg", "caption": "a", "negative_caption": "b"}}')
    with pytest.raises(WrongRequest, match=r"no\.jpg"):
        read_probes(file, pictures)
    with pytest.raises(WrongRequest, match="There are no probes"):
        read_probes(tmp_path / "nothing.json", pictures)


def test_probes_without_a_picture_or_with_an_empty_box_are_counted(
    tmp_path: Path, pictures: Path
) -> None:
    entry = {
        "image_path": "a.jpg", "true_caption": "the cat is on the mat", "relation_name": "on",
        "false_caption": "the mat is on the cat", "bbox_x": 5, "bbox_y": 6, "bbox_w": 20, "bbox_h": 10,
    }  # fmt: skip
    file = tmp_path / "visual_genome_relation.json"
    changes = ({}, {"bbox_w": 0}, {"bbox_h": 0}, {"image_path": "missing.jpg"})
    file.write_text(json.dumps([entry | change for change in changes]))
    found = read_probes(file, pictures)
    assert (len(found.probes), found.total, found.share) == (1, 4, "1 of 4 probes")
    assert [remark.partition(" are left")[0] for remark in found.remarks] == [
        "visual_genome_relation.json: 1 of 4 probes",
        "visual_genome_relation.json: 2 of 4 probes",
    ]
    file.write_text(json.dumps([entry]))
    assert read_probes(file, pictures).share == ""


def test_pictures_are_looked_for_in_images_beside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "visual_genome_relation.json"
    assert beside(file) == tmp_path
    (tmp_path / "images").mkdir()
    assert beside(file) == tmp_path / "images"
    assert beside(tmp_path / "images") == tmp_path / "images"  # a folder of files of probes


def test_numbers_are_true_in_their_scenes_and_true_as_often_as_false() -> None:
    """So that a model that likes a number passes half, whichever it likes."""
    words = ("one", "two", "three")
    probes = [
        probe
        for probe in world_probes(open_data("shapes:64").split("train"))  # 48 scenes
        if probe.kind == "counting"
    ]
    said = []
    for probe in probes:
        assert isinstance(probe.picture, Scene)
        true, false = (words.index(text.split()[0]) + 1 for text in (probe.true, probe.false[0]))
        shape = probe.true.split()[1]
        there = sum(shape in (t.shape, f"{t.shape}s", f"{t.shape}es") for t in probe.picture.things)
        assert (there, true != false) == (true, True)
        said.append((true, false))
    assert all(said.count((a, b)) == 8 for a in (1, 2, 3) for b in (1, 2, 3) if a != b)


def test_false_captions_keep_the_form_of_the_true_one() -> None:
    def made(text: str) -> dict[str, str]:
        item = CaptionedImage("k", Path("a.jpg"), (text,), "test")
        return {probe.kind: probe.false[0] for probe in caption_probes([item])}

    assert set(made("The camera focuses on Bob.")) == {"order"}  # "a" is no word of it
    assert made("A man sleeps.")["negation"] == "No man sleeps."
    found = made("Red dogs, wet and tired, run up a hill.")
    assert found["attribute"].split(" ", 1)[1] == "dogs, wet and tired, run up a hill."
    assert found["attribute"][0].isupper()
    assert found["object"].startswith("Red ") and found["object"].split()[1].endswith(",")
    assert found["relation"] == "Red dogs, wet and tired, run down a hill."
    assert [word[-1] == "," for word in found["order"].split()].count(True) == 2
    assert found["order"][0].isupper() and found["order"].endswith(".")
    rest = "yellow green blue purple pink brown black white ball"
    assert made(f"a red {rest}")["attribute"] == f"an orange {rest}"
    assert made(f"An orange {rest}")["attribute"] == f"A red {rest}"


def test_the_world_knows_what_is_true() -> None:
    items = open_data("shapes:64").split("test")
    probes = world_probes(items)
    assert len(probes) == len(KINDS) * len(items)
    for probe in probes:
        assert isinstance(probe.picture, Scene)
        said = {f"{thing.colour} {thing.shape}" for thing in probe.picture.things}
        if probe.kind in ("attribute", "object"):
            assert probe.true.split(maxsplit=1)[1] in said
            assert probe.false[0].split(maxsplit=1)[1] not in said
        if probe.kind == "order":
            assert sorted(probe.true.replace("an ", "a ").split()) == sorted(
                probe.false[0].replace("an ", "a ").split()
            )
            assert not any(
                part.split(maxsplit=1)[1] in said for part in probe.false[0].split(" and ")
            )


def test_words_of_captions_are_exchanged() -> None:
    texts = (
        "Two dogs run behind a red ball .", "A man is jumping with a board .",
    )  # fmt: skip
    item = open_data("shapes:64").items[0]
    item = type(item)("k", item.path, texts, "test")
    probes = {probe.kind: probe for probe in caption_probes([item])}
    assert set(probes) == set(KINDS)
    assert probes["attribute"].false[0].split()[6] not in ("red", "")
    assert probes["relation"].false[0] == "Two dogs run in front of a red ball ."
    assert probes["counting"].false[0].split()[0] in ("One", "Three", "Four", "Five", "Six")
    assert probes["negation"].false[0] == "Two dogs run behind no red ball ."
    assert sorted(probes["order"].false[0].lower().split()) == sorted(texts[0].lower().split())
    assert probes["object"].false[0] != probes["object"].true
