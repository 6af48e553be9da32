import string

import numpy as np
import pytest
import torch

from tests import commands
from vsepp.data.tokens import Vocabulary, first_words
from vsepp.data.treebank import CUTTERS
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.search.embedder import Embedder
from vsepp.snapshots.snapshot import Snapshot
from vsepp.snapshots.surgery import expand_vocabulary, explained_variance, linear_map

KNOWN = [first + second for first in string.ascii_lowercase[:10] for second in "xyz"]
NEW = ["disc", "orb"]
DIM = 6  # of the large set; the model's words have 8


def world():
    """A model whose words are a linear function of the large set's vectors, and that set."""
    generator = np.random.default_rng(0)
    vectors = {word: generator.normal(size=DIM).astype(np.float32) for word in KNOWN + NEW}
    vectors["orb"] = vectors["ax"]  # another name for the same thing
    torch.manual_seed(0)
    vocabulary = Vocabulary.learn([" ".join(KNOWN)])
    plan = Architecture(num_words=len(vocabulary), size=32, resize=32, dim=16, word_dim=8)
    model = JointEmbedding.build(plan).eval()
    ids = [vocabulary.tokenizer.token_to_id(word) for word in KNOWN]
    meaning = generator.normal(size=(DIM, 8)), generator.normal(size=8)
    theirs = np.stack([vectors[word] for word in KNOWN])
    with torch.no_grad():
        model.caption_encoder.words.weight[ids] = torch.tensor(
            theirs @ meaning[0] + meaning[1], dtype=torch.float32
        )
    return Snapshot(model, vocabulary, plan), vectors


def write(vectors, file):
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in vectors.items()]
    file.write_text("\n".join(["Disc-1 " + "0 " * DIM, *lines]), encoding="utf-8")
    return file


def test_a_word_that_means_the_same_is_embedded_alike():
    before, vectors = world()
    after, fit = expand_vocabulary(before, vectors, NEW)
    words = after.vocabulary.encode(["bx orb cy", "bx ax cy", "bx disc cy"])
    with torch.no_grad():
        one, other, third = after.model.embed_captions(torch.tensor(words), torch.tensor([5] * 3))
    assert torch.dot(one, other) > 0.999  # ridge shrinks a little
    assert torch.dot(one, third) < 0.99
    assert fit.words == len(KNOWN)
    assert fit.explained > 0.99


def test_what_was_known_stays_as_it_was():
    before, vectors = world()
    after, _ = expand_vocabulary(before, vectors, [*NEW, "ax"])
    old, new = before.vocabulary, after.vocabulary
    assert new.words() == [*old.words(), *NEW]
    assert new.unknown_words("orb ax nothing") == ["nothing"]
    weights = after.model.state_dict()
    for name, tensor in before.model.state_dict().items():
        assert torch.equal(weights[name][: len(tensor)] if tensor.dim() else weights[name], tensor)


def test_the_map_is_the_least_squares_solution_and_leaves_the_mean_alone():
    generator = np.random.default_rng(0)
    theirs, ours = generator.normal(size=(200, 5)), generator.normal(size=(200, 3)) + 40
    fitted = np.c_[theirs, np.ones(200)] @ linear_map(theirs, ours)
    best = np.linalg.lstsq(np.c_[theirs, np.ones(200)], ours, rcond=None)[0]
    assert np.abs(fitted - np.c_[theirs, np.ones(200)] @ best).max() < 0.02
    assert fitted.mean() == pytest.approx(ours.mean(), abs=1e-6)
    assert explained_variance(theirs, ours) < 0.1  # there is nothing to explain
    assert explained_variance(theirs, theirs @ generator.normal(size=(5, 3))) > 0.99


def test_a_file_of_another_language_is_refused():
    before, vectors = world()
    foreign = {word.upper() + "ß": vector for word, vector in vectors.items()}
    with pytest.raises(WrongRequest, match=r"Only 0 of the model's words.*another language"):
        expand_vocabulary(before, foreign, foreign)
    with pytest.raises(WrongRequest, match="knows all of these words already"):
        expand_vocabulary(before, vectors, KNOWN)


@pytest.mark.parametrize("cutter", [None, *CUTTERS])
def test_only_what_is_cut_as_one_word_becomes_a_word(cutter):
    words = Vocabulary.learn(["a dog"])
    if cutter is not None:
        words = Vocabulary.of_ids(words.tokenizer.get_vocab(), cutter)
    more = words.with_words(["cat", "two words", "dog", "cat", ""])
    assert more.words() == [*words.words(), "cat"]
    assert more.cutter == cutter
    assert more.encode(["a cat"])[0][2] == len(words)


@pytest.mark.slow
def test_the_command_writes_a_model_that_searches_without_torch(tmp_path):
    before, vectors = world()
    before.save(tmp_path / "before")
    file = write(vectors, tmp_path / "vectors.txt")
    arguments = ["expand", tmp_path / "before", "--word-vectors", file, "--into"]
    done = commands.run([*arguments, tmp_path / "after"])
    assert done.returncode == 0, done.stderr
    assert "2 words added, by a map fitted on 30 words" in done.stderr
    light = Embedder(tmp_path / "after")
    assert light.vocabulary.unknown_words("disc orb ball") == ["ball"]
    one, other = light.embed_texts(["bx orb cy", "bx ax cy"])
    assert one @ other > 0.999
    again = commands.run([*arguments, tmp_path / "after"])
    assert (again.returncode, "already contains a snapshot" in again.stderr) == (2, True)


def test_first_words_of_a_file_are_its_most_frequent(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("5 2\n. 1 2\nThe 1 2\nthe 3 4\ndog 1 2\nx2 1 2\ncat 1 2\n", encoding="utf-8")
    assert first_words(file, 2) == ["the", "dog"]
    assert first_words(file, 9) == ["the", "dog", "cat"]
