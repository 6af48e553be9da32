import json
import pickle

import pytest

from tests.conftest import SHARED
from tests.snapshots.release import SPECIALS, WORDS, python2_vocabulary
from vsepp.data.tokens import Vocabulary as OurVocabulary
from vsepp.errors import WrongRequest
from vsepp.snapshots.released import read_vocabulary

SIZES = {
    "f30k_precomp": 8481,
    "f30k": 8590,
    "f8k_precomp": 3178,
    "f8k": 3388,
    "coco_precomp": 10006,
    "coco": 11755,
    "10crop_precomp": 11360,
}
IDS = {word: number for number, word in enumerate([*SPECIALS, *WORDS])}


@pytest.mark.parametrize("name", SIZES)
def test_the_releases_vocabularies_have_their_sizes(name, tmp_path):
    file = SHARED / "fixtures" / "vocabularies" / f"{name}_vocab.pkl"
    if not file.is_file():
        pytest.skip("needs the release's vocabularies in ../shared/fixtures/vocabularies")
    vocabulary = read_vocabulary(file)
    assert len(vocabulary) == SIZES[name]
    assert [vocabulary.tokenizer.token_to_id(special) for special in SPECIALS] == [0, 1, 2, 3]
    made_in_2017 = name.startswith(("coco", "f30k"))  # the others hold no word that tells
    assert vocabulary.cutter == ("nltk-3.2" if made_in_2017 else "nltk-3.10")
    (known,) = vocabulary.encode(["A man isn't here"])
    assert len(known) == 7
    vocabulary.save(tmp_path / "tokenizer.json")
    again = OurVocabulary.load(tmp_path / "tokenizer.json")
    assert again.tokenizer.get_vocab() == vocabulary.tokenizer.get_vocab()
    assert again.encode(["A man isn't here"]) == [known]


class Vocabulary:
    """As the release's, which followers kept in modules of their own."""

    def __init__(self):
        self.word2idx = dict(IDS)
        self.idx2word = {number: word for word, number in IDS.items()}
        self.idx = len(IDS)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_vocabulary_pickled_by_python_3(protocol, tmp_path):
    (tmp_path / "v.pkl").write_bytes(pickle.dumps(Vocabulary(), protocol))
    assert read_vocabulary(tmp_path / "v.pkl").tokenizer.get_vocab() == IDS


@pytest.mark.parametrize("module", ["__main__", "vocab", "someones.package.vocab"])
def test_a_vocabulary_pickled_by_python_2(module, tmp_path):
    (tmp_path / "v.pkl").write_bytes(python2_vocabulary(module=module))
    assert read_vocabulary(tmp_path / "v.pkl").tokenizer.get_vocab() == IDS


def test_a_vocabulary_in_json(tmp_path):
    content = {"word2idx": IDS, "idx2word": {str(n): w for w, n in IDS.items()}, "idx": len(IDS)}
    (tmp_path / "v.json").write_text(json.dumps(content))
    assert read_vocabulary(tmp_path / "v.json").tokenizer.get_vocab() == IDS
    assert read_vocabulary(tmp_path / "v.json").encode(["a café"]) == [[1, 4, 11, 2]]


def test_ids_are_those_of_the_rules_that_made_the_words(tmp_path):
    """Today's nltk would have cut the last word of the first vocabulary in two."""
    for word, ids in (("dog..", [1, 4, 12, 2]), ("..", [1, 4, 5, 12, 2])):
        (tmp_path / "v.pkl").write_bytes(python2_vocabulary([*WORDS, word]))
        assert read_vocabulary(tmp_path / "v.pkl").encode(["A dog.."]) == [ids]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"a": 0, "b": 2}, "ids of its 2 words are not 0 to 1"),
        ({"a": 0, "b": 0}, "ids of its 2 words are not 0 to 1"),
        ({"a": 0, "<pad>": 1}, "lacks <start>, <end>, <unk>"),
        (["a", "b"], "no table of words"),
        ({"a": "x", "b": 1}, "cannot be read"),
    ],
)
def test_ids_that_make_no_sense_are_said(ids, message, tmp_path):
    (tmp_path / "v.json").write_text(json.dumps({"word2idx": ids}))
    with pytest.raises(WrongRequest, match=message):
        read_vocabulary(tmp_path / "v.json")
