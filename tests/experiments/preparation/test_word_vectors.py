import pytest
import torch
from torch import nn

from vsepp.data.tokens import Vocabulary
from vsepp.errors import WrongRequest
from vsepp.experiments.preparation.pretrained import load_word_vectors

VOCABULARY = Vocabulary.learn(["a dog and a cat", "two dogs run"])


def table():
    torch.manual_seed(0)
    words = nn.Embedding(len(VOCABULARY), 300)
    nn.init.uniform_(words.weight, -0.1, 0.1)
    return words


def test_words_begin_with_the_files_vectors_at_the_length_of_random_ones(tmp_path):
    generator = torch.Generator().manual_seed(1)
    vectors = {word: 40 * torch.rand(300, generator=generator) for word in ("dog", "cat", "run")}
    vectors["cat"] *= 2
    lines = [" ".join([word, *map(str, v.tolist())]) for word, v in vectors.items()]
    (tmp_path / "glove.txt").write_text("\n".join(lines))
    words, before = table(), table().weight
    said = load_word_vectors(str(tmp_path / "glove.txt"), words, VOCABULARY)
    ids = [VOCABULARY.tokenizer.token_to_id(word) for word in vectors]
    others = [number for number in range(len(VOCABULARY)) if number not in ids]
    assert torch.equal(words.weight[others], before[others])
    given = torch.stack(list(vectors.values()))
    ratio = words.weight[ids] / given
    torch.testing.assert_close(ratio, ratio[0, 0].expand_as(ratio))  # one number for all
    lengths = words.weight[ids].detach().norm(dim=1)
    assert lengths.square().mean().sqrt() == pytest.approx(1, rel=0.05)
    assert "vectors for 3 of 7 words" in said
    assert words.weight.requires_grad


def test_a_file_without_a_known_word_is_no_beginning(tmp_path):
    (tmp_path / "other.txt").write_text("Hund 1 2 3\n")
    with pytest.raises(WrongRequest, match="none of the 7 words, such as a"):
        load_word_vectors(str(tmp_path / "other.txt"), nn.Embedding(len(VOCABULARY), 3), VOCABULARY)
