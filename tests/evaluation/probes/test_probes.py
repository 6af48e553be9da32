"""Probes: published files in their real form, the built-in world, and captions with words exchanged."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vsepp.data.collections import open_data
from vsepp.data.shapes import Scene
from vsepp.errors import WrongRequest
from vsepp.evaluation.probes.generated import KINDS, caption_probes, world_probes
from vsepp.evaluation.probes.probe import Probe, accuracies
from vsepp.evaluation.probes.published import coco_picture, read_probes


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
    found = read_probes(folder, pictures)
    assert [probe.kind for probe in found] == ["object (replace)", "attribute (swap)"]
    assert found[0].true == "a cat" and found[0].false == ("a dog",)


def test_aro_looks_at_a_box(tmp_path: Path, pictures: Path) -> None:
    entry = {
        "image_path": "a.jpg", "true_caption": "the cat is on the mat", "relation_name": "on",
        "false_caption": "the mat is on the cat", "bbox_x": 5, "bbox_y": 6, "bbox_w": 20, "bbox_h": 10,
    }  # fmt: skip
    file = tmp_path / "visual_genome_relation.json"
    file.write_text(json.dumps([entry]))
    (probe,) = read_probes(file, pictures)
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
    found = read_probes(file, pictures)
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
    first, second = read_probes(file, pictures)
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
    probes = read_probes(file, pictures)
    assert [probe.true for probe in probes] == ["old kisses young", "young kisses old"]
    # image 0: own .6, other .5; image 1: own .7, other .65: captions are told apart, images are not
    found = accuracies(probes, [np.array([0.6, 0.5]), np.array([0.7, 0.65])])
    assert found["winoground text"].value == 100
    assert found["winoground image"].value == 0  # caption 0 fits image 1 better: .65 > .6
    assert found["winoground group"].value == 0


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
    assert probes["counting"].false[0].split()[0] != "Two"
    assert probes["negation"].false[0] == "Two dogs run behind no red ball ."
    assert sorted(probes["order"].false[0].split()) == sorted(texts[0].lower().split())
    assert probes["object"].false[0] != probes["object"].true
