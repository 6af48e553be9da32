import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.conftest import SHARED
from vsepp.data.collections import open_data
from vsepp.data.tokens import SPECIALS, Vocabulary
from vsepp.data.treebank import CUTTERS
from vsepp.errors import WrongRequest
from vsepp.snapshots.released import read_vocabulary

CAPTIONS = ["A dog runs.", "A dog sleeps!", "the cat"]


def words(vocabulary, caption):
    return vocabulary.tokenizer.encode(caption).tokens


def test_by_hand():
    vocabulary = Vocabulary.learn(CAPTIONS)
    assert words(vocabulary, "The dog, runs") == ["<start>", "the", "dog", "<unk>", "runs", "<end>"]
    assert vocabulary.encode(["a dog"]) == [[1, 4, 5, 2]]  # the most frequent words come first


def test_the_words_are_those_that_were_learned():
    words = Vocabulary.learn(CAPTIONS).words()
    assert words[:2] == ["a", "dog"]
    assert set(words) == {"a", "dog", "runs", ".", "sleeps", "!", "the", "cat"}


def test_rare_words_are_unknown():
    vocabulary = Vocabulary.learn(CAPTIONS, min_count=2)
    assert words(vocabulary, "a cat") == ["<start>", "a", "<unk>", "<end>"]


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("A dog runs", []),
        ("A Zebra runs, and a ZEBRA; sleeps!", ["Zebra", "and", "ZEBRA"]),
        ("the cafe\u0301 🐕", ["café", "🐕"]),
        ("dog 狗", ["狗"]),
        ("zebras, zebras everywhere!", ["zebras", "everywhere"]),
        ("(...)", []),
        ("", []),
    ],
)
def test_unknown_words_are_named_as_they_were_written(text, unknown):
    assert Vocabulary.learn(CAPTIONS).unknown_words(text) == unknown


def test_words_are_judged_one_by_one():
    judged = Vocabulary.learn(CAPTIONS).words_with_known("The ZEBRA, runs (zebra)")
    assert judged == [("The", True), ("ZEBRA", False), ("runs", True), ("zebra", False)]


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("Ein Hund läuft über Straße", ["ein", "hund", "läuft", "über", "straße"]),
        ("собака бежит", ["собака", "бежит"]),
        ("一只狗在跑", ["一", "只", "狗", "在", "跑"]),
        ("犬が走る", ["犬", "が", "走", "る"]),
        ("หมาวิ่ง", ["ห", "ม", "า", "วิ่", "ง"]),
        ("كلب يجري", ["كلب", "يجري"]),
        ("개가 달린다", ["개가", "달린다"]),
        ("ＤＯＧ", ["dog"]),
        ("cafe\u0301", ["café"]),
        ("good dog 🐕", ["good", "dog", "🐕"]),
    ],
)
def test_every_language_is_cut_into_words(caption, expected):
    vocabulary = Vocabulary.learn([caption])
    assert words(vocabulary, caption)[1:-1] == expected


def test_a_caption_cannot_smuggle_in_special_words():
    vocabulary = Vocabulary.learn(["<pad> <end> dog"])
    assert 0 not in vocabulary.encode(["<pad> dog <pad>"])[0]


def test_saved_and_loaded_it_cuts_the_same(tmp_path):
    vocabulary = Vocabulary.learn(CAPTIONS)
    vocabulary.save(tmp_path / "tokenizer.json")
    loaded = Vocabulary.load(tmp_path / "tokenizer.json")
    assert loaded.encode(CAPTIONS) == vocabulary.encode(CAPTIONS)
    assert len(loaded) == len(vocabulary)


def test_words_of_elsewhere_keep_their_ids_and_their_cutter(tmp_path):
    ids = {"<unk>": 0, "n't": 1, "<end>": 2, "do": 3, "<start>": 4, "<pad>": 5, ".": 6}
    Vocabulary.of_ids(ids, "nltk-3.10").save(tmp_path / "tokenizer.json")
    loaded = Vocabulary.load(tmp_path / "tokenizer.json")
    assert loaded.encode(["Don't!", "don't. do", ""]) == [
        [4, 3, 1, 0, 2],
        [4, 3, 1, 6, 3, 2],
        [4, 2],
    ]
    assert len(loaded) == 7
    assert loaded.encode(["<pad> do <end>"])[0].count(5) == 0  # nor can such be smuggled in here
    with pytest.raises(Exception, match="expected"):
        Tokenizer.from_file(str(tmp_path / "tokenizer.json"))  # it would cut captions differently


def test_an_unknown_cutter_is_said(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"cutter": "nltk-9"}')
    with pytest.raises(WrongRequest, match=r"'nltk-9'\. Known: nltk-3"):
        Vocabulary.load(tmp_path / "tokenizer.json")


@given(st.lists(st.text(), max_size=6), st.text())
def test_any_text_can_be_learned_and_encoded(captions, query):
    vocabulary = Vocabulary.learn(captions)
    ids = vocabulary.encode([query])[0]
    assert ids[0] == 1
    assert ids[-1] == 2
    assert all(0 < number < len(vocabulary) for number in ids)
    unknown = vocabulary.tokenizer.token_to_id("<unk>")
    assert not any(unknown in ids for ids in vocabulary.encode(captions))


def test_unknown_words_of_a_vocabulary_with_rules_of_its_own():
    ids = {word: number for number, word in enumerate((*SPECIALS, "a", "dog", "does", "n't"))}
    released = Vocabulary.of_ids(ids, next(iter(CUTTERS)))
    assert released.unknown_words("A dog doesn't fly, a dog.") == ["fly"]
    assert released.words_with_known("a cat") == [("a", True), ("cat", False)]


def test_new_words_come_behind_those_that_are_known(tmp_path):
    before = Vocabulary.learn(["a dog runs", "a dog"])
    after = before.extended(["a cat runs", "a cat", "one fox"], min_count=2)
    assert after.words() == [*before.words(), "cat"]
    assert after.encode(["a dog"]) == before.encode(["a dog"])
    assert after.unknown_words("a fox and a cat") == ["fox", "and"]
    after.save(tmp_path / "tokenizer.json")
    assert Vocabulary.load(tmp_path / "tokenizer.json").encode(["cat"]) == after.encode(["cat"])
    assert before.extended(["a dog"]) is before


def test_words_can_be_learned_by_the_releases_rules(tmp_path):
    captions = ["A man in a t-shirt isn't here.", "the man's t-shirt", "a man's dog isn't"]
    vocabulary = Vocabulary.learn(captions, min_count=2, cutter="nltk-3.2")
    assert vocabulary.words() == ["a", "man", "'s", "is", "n't", "t-shirt"]
    vocabulary.save(tmp_path / "tokenizer.json")
    loaded = Vocabulary.load(tmp_path / "tokenizer.json")
    assert loaded.encode(["A t-shirt isn't"]) == [[1, 4, 9, 7, 8, 2]]
    after = loaded.extended(["the dog's", "the dog's"], min_count=2)
    assert after.words() == [*loaded.words(), "dog", "the"]
    assert after.cutter == "nltk-3.2"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "splits", "number"),
    [("f8k", ("train", "val", "test"), 3384), ("f8k_precomp", ("train", "val"), 3174)],
)
def test_the_releases_vocabulary_of_flickr8k_can_be_made_again(flickr8k, name, splits, number):
    """Theirs counts the words of all captions, or of those beside the features but the test's."""
    file = SHARED / "fixtures" / "vocabularies" / f"{name}_vocab.pkl"
    if not file.is_file():
        pytest.skip("needs the release's vocabularies in ../shared/fixtures/vocabularies")
    items = open_data(flickr8k).items
    captions = [c for item in items if item.split in splits for c in item.captions]
    ours = Vocabulary.learn(captions, min_count=4, cutter="nltk-3.2")
    theirs = read_vocabulary(file)
    assert set(ours.words()) == set(theirs.words())
    assert len(ours.words()) == number
