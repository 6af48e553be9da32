import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vsepp
from tests.models import SCENES
from tests.serving import NUM_PHOTOS, sideways
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.store import Embedding, Photo
from vsepp.service.limits import MAX_DEPTH, MAX_HITS, MAX_QUERY


def png(colour="red", size=(32, 32)):
    data = BytesIO()
    Image.new("RGB", size, colour).save(data, "PNG")
    return data.getvalue()


def hits(client, **asked):
    answer = client.get("/api/search", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["hits"]


def test_words_find_what_the_collection_finds(client, collection):
    found = collection.search("a red circle", k=5)
    answer = client.get("/api/search", params={"q": "a red circle", "limit": 5}).json()
    assert [hit["key"] for hit in answer["hits"]] == [hit.key for hit in found]
    assert [hit["score"] for hit in answer["hits"]] == [hit.score for hit in found]
    assert [hit["path"] for hit in answer["hits"]] == [str(hit.path) for hit in found]
    assert answer["min_score"] == found.min_score
    assert answer["query"] == "a red circle"


def test_pages_follow_each_other_without_gap_or_overlap(client, collection):
    asked = {"q": "red", "min_score": -9}
    whole = [hit.key for hit in collection.search("red", k=NUM_PHOTOS, min_score=-9)]
    pages = []
    for offset in range(0, NUM_PHOTOS, 40):
        answer = client.get("/api/search", params={**asked, "limit": 40, "offset": offset}).json()
        pages += [hit["key"] for hit in answer["hits"]]
        assert answer["more"] == (offset + 40 < NUM_PHOTOS)
    assert pages == whole
    assert len(whole) == NUM_PHOTOS
    behind = client.get("/api/search", params={**asked, "offset": MAX_DEPTH}).json()
    assert (behind["hits"], behind["more"]) == ([], False)


def test_without_a_question_the_newest_come_first(client):
    found = hits(client, limit=MAX_HITS)
    assert len(found) == NUM_PHOTOS
    taken = [hit["taken"] for hit in found]
    assert taken == sorted(taken, reverse=True)
    assert {hit["score"] for hit in found} == {None}


def test_filters_and_unknown_words(client):
    found = hits(client, q='in:"my photos"', limit=MAX_HITS)
    assert {hit["folder"] for hit in found} == {"my photos"}
    assert len(found) == NUM_PHOTOS / 3
    answer = client.get("/api/search", params={"q": "zeppelin"}).json()
    assert answer["unknown_words"] == ["zeppelin"]
    assert answer["hits"] == []
    answer = client.get("/api/search", params={"q": "red circles"}).json()
    assert answer["taken_for"] == {"circles": "circle"}
    assert answer["unknown_words"] == []


def test_more_like_a_photo_leaves_itself_out_and_takes_words(client):
    (first, *_) = hits(client, limit=1)
    like = hits(client, like=first["key"], limit=3, min_score=-9)
    assert len(like) == 3
    assert first["key"] not in [hit["key"] for hit in like]
    both = hits(client, like=first["key"], q="a green star", limit=3, min_score=-9)
    assert [hit["key"] for hit in both] != [hit["key"] for hit in like]


def test_an_upload_finds_itself_and_takes_words(client):
    photo = hits(client, limit=1)[0]
    data = client.get(f"/api/photos/{photo['key']}/file").content
    answer = client.post("/api/search?limit=3&min_score=-9", files={"photo": ("x.jpg", data)})
    found = answer.json()["hits"]
    assert found[0]["key"] == photo["key"]
    assert len(found) == 3
    both = client.post(
        "/api/search?limit=3&q=a+green+star&min_score=-9", files={"photo": ("x.jpg", data)}
    )
    assert both.json()["hits"] != found


def test_near_duplicates_are_folded(photos, client_of, tmp_path):
    twin = sorted((photos / "2020").iterdir())[0]
    for name in ("one.jpg", "two.jpg"):
        (tmp_path / name).write_bytes(twin.read_bytes())
    with vsepp.Collection.create(tmp_path / "twins.vse", vsepp.load(SCENES)) as twins:
        twins.add(tmp_path)
        client = client_of(twins)
        assert len(hits(client, q="red", min_score=-9)) == 2
        (kept,) = hits(client, q="red", min_score=-9, fold=True)
        assert len(kept["alike"]) == 1


def test_a_photo_is_described_and_delivered_as_it_is(client, photos):
    photo = hits(client, q="in:2020", limit=1)[0]
    answer = client.get(f"/api/photos/{photo['key']}").json()
    assert answer == {name: value for name, value in photo.items() if name in answer}
    assert (answer["folder"], answer["width"], answer["height"]) == ("2020", 144, 96)
    delivered = client.get(f"/api/photos/{photo['key']}/file")
    assert delivered.headers["content-type"] == "image/jpeg"
    assert delivered.content == (photos / "2020" / photo["name"]).read_bytes()


def test_thumbnails_are_small_upright_and_may_be_kept(client_of, tmp_path):
    sideways(tmp_path / "turned.jpg")
    Image.new("RGB", (2000, 1000), "green").save(tmp_path / "wide.png")
    with vsepp.Collection.create(tmp_path / "two.vse", vsepp.load(SCENES)) as two:
        two.add(tmp_path)
        client = client_of(two)
        by_name = {hit["name"]: hit for hit in hits(client)}
        turned = by_name["turned.jpg"]
        assert (turned["width"], turned["height"]) == (40, 60)
        address = f"/api/photos/{turned['key']}/thumbnail"
        picture = Image.open(BytesIO(client.get(address).content))
        assert picture.size == (40, 60)
        top, bottom = picture.getpixel((20, 10)), picture.getpixel((20, 50))
        assert top[0] > 200 > 50 > top[2]
        assert bottom[2] > 200 > 50 > bottom[0]
        wide = f"/api/photos/{by_name['wide.png']['key']}/thumbnail"
        for side in (320, 640, 1600):
            picture = Image.open(BytesIO(client.get(wide, params={"side": side}).content))
            assert picture.size == (side, side // 2)
        kept = client.get(address, params={"version": turned["version"]})
        assert "immutable" in kept.headers["cache-control"]
        assert client.get(address).headers["cache-control"] == "no-cache"


def test_a_name_that_is_no_utf8_is_shown_and_delivered(client_of, tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    try:
        (tmp_path / name).write_bytes(png())
    except OSError:
        pytest.skip("this file system takes only names that are valid UTF-8")
    with vsepp.Collection.create(tmp_path / "one.vse", vsepp.load(SCENES)) as one:
        one.add(tmp_path)
        client = client_of(one)
        (hit,) = hits(client)
        assert hit["name"] == "caf?.png"
        assert client.get(f"/api/photos/{hit['key']}/file").content == png()


def test_a_photo_that_is_gone_or_none_any_more_is_not_delivered(client_of, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("nobody's business")
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("gone.png", "swapped.png", "piped.png"):
        (folder / name).write_bytes(png())
    with vsepp.Collection.create(tmp_path / "three.vse", vsepp.load(SCENES)) as three:
        three.add(folder)
        for file in folder.iterdir():
            file.unlink()
        (folder / "swapped.png").symlink_to(secret)
        os.mkfifo(folder / "piped.png")
        client = client_of(three)
        found = hits(client)
        assert len(found) == 3
        for hit in found:
            for what in ("file", "thumbnail"):
                answer = client.get(f"/api/photos/{hit['key']}/{what}")
                assert answer.status_code == 404
                assert "no longer exists" in answer.json()["reason"]


class Removing:
    """A collection from which a photo is removed just before each search."""

    def __init__(self, collection, folder):
        self._collection = collection
        self._folder = folder

    def search(self, *args, **kwargs):
        (self._folder / "one.png").unlink()
        self._collection.add(self._folder, prune=True)
        return self._collection.search(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._collection, name)


def test_a_photo_that_is_removed_while_others_like_it_are_sought_is_not_there(client_of, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("one.png", "other.png"):
        (folder / name).write_bytes(png())
    with vsepp.Collection.create(tmp_path / "two.vse", vsepp.load(SCENES)) as two:
        two.add(folder)
        (key,) = [hit["key"] for hit in hits(client_of(two)) if hit["name"] == "one.png"]
        answer = client_of(Removing(two, folder)).get("/api/search", params={"like": key})
    assert answer.status_code == 404
    assert answer.json()["reason"] == f"There is no photo {key}."


@pytest.mark.parametrize(
    ("address", "status", "reason"),
    [
        ("/api/photos/999999", 404, "There is no photo 999999."),
        ("/api/photos/999999/file", 404, "There is no photo 999999."),
        ("/api/search?like=999999", 404, "There is no photo 999999."),
        ("/api/photos/x", 422, "key: "),
        ("/api/photos/99999999999999999999", 404, "no photo"),
        ("/api/photos/no-key", 422, "key: "),
        ("/api/photos/1/thumbnail?side=4000", 422, "side: "),
        ("/api/search?q=after:yesterday", 422, "not a date"),
        ("/api/search?q=-people", 422, "only words to avoid"),
        (f"/api/search?limit={MAX_HITS + 1}", 422, "limit: "),
        ("/api/search?limit=0", 422, "limit: "),
        (f"/api/search?offset={MAX_DEPTH + 1}", 422, "offset: "),
        ("/api/search?offset=-1", 422, "offset: "),
        ("/api/search?min_score=nan", 422, "min_score: "),
        (f"/api/search?q={'a' * (MAX_QUERY + 1)}", 422, "q: "),
        ("/api/nothing", 404, "There is nothing here."),
        ("/nothing.html", 404, "There is nothing here."),
    ],
)
def test_errors_are_json_with_a_reason(client, address, status, reason):
    answer = client.get(address)
    assert answer.status_code == status
    assert answer.json()["status"] == status
    assert reason in answer.json()["reason"]


def test_a_wrong_method_is_answered_with_a_reason(client):
    answer = client.post("/api/health")
    assert answer.status_code == 405
    assert answer.json()["reason"] == "This method is not allowed here."


def test_the_collection_introduces_itself(client, collection):
    answer = client.get("/api/collection").json()
    assert (answer["name"], answer["photos"]) == ("photos", NUM_PHOTOS)
    assert {item["folder"]: item["photos"] for item in answer["folders"]} == {
        "2019/beach": 50,
        "2020": 50,
        "my photos": 50,
    }
    assert "circle" in answer["words"]
    assert client.get("/api/health").json()["photos"] == NUM_PHOTOS


def test_all_folders_count_however_many_photos_there_are(tmp_path, client_of):
    """The first folder holds the oldest photos, behind more than anybody can scroll to."""
    model = vsepp.load(SCENES)
    made = Embedding(np.zeros(model.dim, dtype=np.float32), b"")
    with vsepp.Collection.create(tmp_path / "many.vse", model) as many:
        photos = SqliteStore.open(many.path)
        photos.put(
            (Photo(Path(f"/p/{year}/{n}.jpg"), 1, 1, f"{year}-01-01T00:00:00", 4, 3, b""), made)
            for year, count in ((1999, 70), (2020, MAX_DEPTH))
            for n in range(count)
        )
        photos.close()
        answer = client_of(many).get("/api/collection").json()
    assert answer["folders"] == [
        {"folder": "1999", "photos": 70},
        {"folder": "2020", "photos": MAX_DEPTH},
    ]


def test_openapi_has_examples_and_describes_the_errors(client):
    described = client.get("/openapi.json").json()
    search = described["paths"]["/api/search"]["get"]
    (q,) = [item for item in search["parameters"] if item["name"] == "q"]
    assert q["schema"]["examples"]
    assert {"401", "413", "422", "503"} <= set(search["responses"])
    assert described["components"]["schemas"]["HitAnswer"]["properties"]["folder"]["examples"]
