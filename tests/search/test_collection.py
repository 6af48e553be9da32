"""Searching: words, photos, both, filters; by several threads and processes while others add."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vsepp
from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest
from vsepp.search.stores.sqlite import SqliteStore

SCENES = {f"{item.path.number:04d}.png": item for item in open_data("shapes:800").split("test")}


def everything(collection, text=None, **options):
    return collection.search(text, k=1000, min_score=-9, **options)


def test_a_caption_finds_its_scene(collection):
    ranks = []
    for item in SCENES.values():
        names = [hit.path.name for hit in everything(collection, item.captions[0])]
        assert len(names) == len(set(names)) == 100
        ranks.append(names.index(f"{item.path.number:04d}.png") + 1)
    assert np.mean(np.array(ranks) <= 10) > 0.9


def test_hits_are_sorted_and_scored_by_inner_product(collection, embedder):
    text = "a red circle above a blue square"
    found = everything(collection, text)
    (query,) = embedder.embed_texts([text])
    photos = embedder.embed_images(hit.path for hit in found)
    np.testing.assert_allclose([hit.score for hit in found], photos @ query, atol=2e-3)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_a_photo_finds_itself_and_its_family(collection, scenes):
    file = next(scenes.rglob("0028.png"))  # families are four scenes with consecutive numbers
    found = collection.search(image=file, k=4, min_score=-9)
    assert found[0].path == file
    assert found[0].score == pytest.approx(1, abs=2e-3)
    assert {"0029.png", "0030.png", "0031.png"} & {hit.path.name for hit in found}
    with Image.open(file) as picture:
        assert [hit.key for hit in collection.search(image=picture, k=4, min_score=-9)] == [
            hit.key for hit in found
        ]
    more = collection.search(like=found[0].key, k=3, min_score=-9)  # more like this one
    assert [hit.key for hit in more] == [hit.key for hit in found[1:]]


def test_words_and_a_photo_together(collection, embedder, scenes):
    """The hits fit the words better than the photo's own, and the photo better than the words' own."""
    file, text = next(scenes.rglob("0028.png")), "a small dotted green ring above a purple cross"
    together, photo_alone, words_alone = (
        embedder.embed_images(hit.path for hit in found.hits[:10])
        for found in (
            everything(collection, text, image=file),
            everything(collection, image=file),
            everything(collection, text),
        )
    )
    words, photo = embedder.embed_texts([text])[0], embedder.embed_images([file])[0]
    assert (together @ words).mean() > (photo_alone @ words).mean()
    assert (together @ photo).mean() > (words_alone @ photo).mean()


def test_words_with_a_minus_are_avoided(collection, embedder):
    with_minus, without = (
        embedder.embed_images(hit.path for hit in everything(collection, text).hits[:10])
        for text in ("a red circle -star", "a red circle")
    )
    circle, star = embedder.embed_texts(["a red circle", "star"])
    assert (with_minus @ star).mean() < (without @ star).mean()
    assert (with_minus @ circle).mean() > 0.5
    with pytest.raises(WrongRequest, match="only words to avoid: star"):
        collection.search("-star")


def test_filters_work_with_words_and_without(collection, scenes):
    found = everything(collection, "a red circle in:2017")
    assert {hit.path.parent.name for hit in found} == {"2017"}
    assert len(found) == 10
    assert len(everything(collection, "a red circle -in:2017")) == 90
    assert len(everything(collection, "a red circle before:1999")) == 0
    assert len(everything(collection, "a red circle after:1999")) == 100
    listed = collection.search("in:scenes/2017", k=7)
    assert {hit.path.parent.name for hit in listed} == {"2017"}
    assert len(listed) == 7
    assert len(collection.search(k=1000)) == 100  # nothing asked: all, the newest first
    assert everything(collection, "in:2017", image=listed[3].path)[0].key == listed[3].key


def test_unknown_words_are_named(collection):
    found = collection.search("a fluffy red circle -zebra")
    assert list(found.unknown_words) == ["fluffy", "zebra"]
    assert len(found) > 0
    assert "fluffy, zebra" in " ".join(found.notes())


def test_other_forms_of_known_words_are_taken_for_them(collection):
    found = collection.search("two RED circles, -squares", k=5)
    plain = collection.search("two red circle, -square", k=5)
    assert dict(found.taken_for) == {"circles": "circle", "squares": "square"}
    assert "circles" not in found.unknown_words
    assert [hit.key for hit in found] == [hit.key for hit in plain]
    assert found.min_score == plain.min_score
    assert "Taking 'circles' for 'circle'." in found.notes()
    assert found.as_dict()["taken_for"] == {"circles": "circle", "squares": "square"}
    assert dict(plain.taken_for) == {}


@pytest.mark.parametrize(
    "text", ["a quarterly tax report", "the of the of", "zebra crossing", "и так далее", "!!!"]
)
def test_nonsense_finds_little(collection, text):
    assert len(collection.search(text, k=100)) <= 1
    assert len(collection.search(text, k=100, min_score=-9)) in (0, 100)  # 0: no word is known


def test_sense_finds_more_than_nonsense(collection):
    """What the right scene scores is above what chance explains, for nearly all captions."""
    kept = [
        f"{item.path.number:04d}.png"
        in [hit.path.name for hit in collection.search(item.captions[0], k=10)]
        for item in list(SCENES.values())[:40]
    ]
    assert np.mean(kept) > 0.75


def test_a_limit_of_ones_own(collection):
    scores = [hit.score for hit in everything(collection, "a red circle")]
    found = collection.search("a red circle", k=1000, min_score=scores[20])
    assert len(found) == 21
    assert found.min_score == scores[20]
    assert len(collection.search("a red circle", k=5, min_score=-9)) == 5


def test_near_duplicates_are_folded_on_request(collection, scenes):
    original = next(scenes.rglob("0028.png"))
    with Image.open(original) as picture:
        picture.save(scenes / "copy.jpg", quality=90)
        picture.resize((150, 150)).save(scenes / "large.png")
    collection.add(scenes)
    trio = {"0028.png", "copy.jpg", "large.png"}
    plain = collection.search(image=original, k=5, min_score=-9)
    assert {hit.path.name for hit in plain.hits[:3]} == trio
    assert not plain.alike
    found = collection.search(image=original, k=5, min_score=-9, fold=True)
    assert len(found) == 5
    assert len({hit.path.name for hit in found} & trio) == 1
    folded = {hit.path.name for hit in found.alike[found[0].key]}
    assert {found[0].path.name, *folded} >= trio
    keys = {hit.key for hit in found}
    assert set(found.alike) <= keys


def test_what_the_server_needs_of_a_photo(collection, scenes):
    hit = collection.search("a red circle", min_score=-9)[0]
    photo = collection.photo(hit.key)
    assert (photo.path, photo.width, photo.height) == (hit.path, 80, 80)
    for key in ("0", "99999", "-1", "1.5", "../../etc/passwd", ""):
        assert collection.photo(key) is None
    with pytest.raises(WrongRequest, match="no photo '99999'"):
        collection.search(like="99999")
    with pytest.raises(WrongRequest, match="not both"):
        collection.search(like=hit.key, image=hit.path)
    with pytest.raises(WrongRequest, match="at least one"):
        collection.search("a red circle", k=0)


@pytest.mark.parametrize("key", ["0", "-1", "007", "x", "", "1.0", "\u0661", str(2**63), "9" * 400])
def test_what_is_no_key_finds_no_photo(collection, key):
    assert collection.photo(key) is None
    with pytest.raises(WrongRequest, match="There is no photo"):
        collection.search(like=key)


def test_an_empty_collection_answers(embedder, tmp_path):
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:
        found = collection.search("a red circle")
        assert list(found) == []
        json.dumps(found.as_dict(), allow_nan=False)
        assert list(collection.search()) == []


def test_the_hits_as_a_document(collection):
    found = collection.search("a red circle", k=3, min_score=0)
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert document["query"] == "a red circle"
    assert [set(hit) for hit in document["hits"]] == [{"key", "score", "path"}] * 3
    assert document["hits"][0]["path"] == str(found[0].path)


# ---- the model ------------------------------------------------------------------------------


def other_model(embedder, folder):
    """The same net with other numbers: what a second training would leave."""
    shutil.copytree(embedder.folder, folder)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-4:] = b"\0\0\0\0"
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_vectors_of_another_model_are_refused(collection, embedder, tmp_path):
    other = vsepp.load(other_model(embedder, tmp_path / "other"))
    for opening in (vsepp.Collection.open, vsepp.Collection.open_or_create):
        with pytest.raises(WrongRequest, match=r"vectors of another model than .*other"):
            opening(collection.path, other)


def test_a_collection_brings_its_own_model(collection, embedder, tmp_path):
    with vsepp.Collection.open(collection.path) as again:
        assert again.search("a red circle") == collection.search("a red circle")
        assert again.embedder.folder == embedder.folder


def test_a_model_that_moved_or_changed_is_told(embedder, scenes, tmp_path):
    folder = other_model(embedder, tmp_path / "mine")
    path = tmp_path / "mine.vse"
    with vsepp.Collection.create(path, vsepp.load(folder)) as collection:
        collection.add(scenes / "2015")
    folder.rename(tmp_path / "elsewhere")
    with (
        vsepp.Collection.open(path) as collection,
        pytest.raises(
            WrongRequest, match=r"model in .*mine, which no longer exists.*Name the folder"
        ),
    ):
        collection.search("a red circle")
    with vsepp.Collection.open(path, vsepp.load(tmp_path / "elsewhere")) as collection:
        assert len(collection.search("a red circle", min_score=-9)) == 10
    shutil.copytree(embedder.folder, folder)  # trained anew, in the same place
    with (
        vsepp.Collection.open(path) as collection,
        pytest.raises(WrongRequest, match="has changed since"),
    ):
        collection.add(scenes)


# ---- at the same time -----------------------------------------------------------------------


def test_threads_search_while_one_adds(scenes, embedder, tmp_path):
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:

        def ask():
            sizes = []
            while not adding.done():
                found = everything(collection, "a red circle")
                keys = [hit.key for hit in found]
                assert len(keys) == len(set(keys))
                sizes.append(len(found))
            return sizes

        with ThreadPoolExecutor(4) as pool:
            adding = pool.submit(collection.add, scenes)
            asking = [pool.submit(ask) for _ in range(3)]
            assert adding.result().added == 100
            for sizes in (task.result() for task in asking):
                assert sizes == sorted(sizes)  # what was found once stays found
        assert len(everything(collection, "a red circle")) == 100


def test_changes_made_elsewhere_are_seen(collection, scenes, embedder):
    """Another process adds, changes and removes; this one sees each of it at its next search."""
    file = next(scenes.rglob("0028.png"))
    everything(collection, "a red circle")
    with vsepp.Collection.open(collection.path, embedder) as elsewhere:
        Image.new("RGB", (30, 30), "blue").save(scenes / "new.png")
        elsewhere.add(scenes)
        assert scenes / "new.png" in [hit.path for hit in everything(collection, "red")]
        shutil.copy(scenes / "new.png", file)
        elsewhere.add(scenes)
        (best, second) = collection.search(image=scenes / "new.png", k=2, min_score=-9)
        assert {best.path, second.path} == {file, scenes / "new.png"}
        file.unlink()
        elsewhere.add(scenes, prune=True)
        found = everything(collection, "red")
        assert len(found) == 100
        assert file not in [hit.path for hit in found]


@pytest.mark.slow
def test_another_process_searches_while_this_one_adds(scenes, embedder, tmp_path):
    path = tmp_path / "photos.vse"
    vsepp.Collection.create(path, embedder).close()
    script = (
        "import sys, vsepp\n"
        "assert 'torch' not in sys.modules\n"
        f"with vsepp.Collection.open({str(path)!r}) as collection:\n"
        "    while True:\n"
        "        found = collection.search('a red circle', k=1000, min_score=-9)\n"
        "        print(len(found), flush=True)\n"
        "        if len(found) == 100: break\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as searching:
        assert searching.stdout.readline() == "0\n"
        with vsepp.Collection.open(path, embedder) as collection:
            adding = collection.adding(scenes)
            for _ in range(3):
                done = next(adding).done
            assert done == 64
            while int(searching.stdout.readline()) < done:  # it will see the half of it
                pass
            for _ in adding:
                pass
        sizes = [int(line) for line in searching.stdout]
        assert searching.wait(timeout=300) == 0
    assert sizes[-1] == 100
    assert sizes == sorted(sizes)


def test_a_killed_writer_in_the_middle_of_a_batch_is_not_seen(collection):
    """A transaction that was never committed leaves no trace."""
    photos = SqliteStore.open(collection.path)
    photos._connection.execute("BEGIN IMMEDIATE")
    photos._connection.execute("DELETE FROM photos")
    assert len(everything(collection, "a red circle")) == 100
    photos.close()
    assert len(everything(collection, "a red circle")) == 100


def test_a_name_with_a_tilde_is_at_home(embedder, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    vsepp.Collection.create("~/photos.vse", embedder).close()
    assert (tmp_path / "photos.vse").is_file()
    vsepp.Collection.open("~/photos.vse").close()
    assert Path("~/photos.vse").expanduser() == tmp_path / "photos.vse"
