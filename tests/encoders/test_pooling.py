import torch

from vsepp.encoders.pooling import Learned, Max, Mean, is_word

STATES = torch.tensor(
    [[[1.0, 9], [3, -4], [2, -2], [50, 50]], [[-7, -5], [50, 50], [50, 50], [0, 0]]]
)
LENGTHS = torch.tensor([3, 1])


def test_by_hand():
    assert torch.equal(Mean()(STATES, LENGTHS), torch.tensor([[2.0, 1], [-7, -5]]))
    assert torch.equal(Max()(STATES, LENGTHS), torch.tensor([[3.0, 9], [-7, -5]]))


def test_learned_pooling_can_be_the_mean_and_the_maximum():
    pool = Learned()
    torch.nn.init.zeros_(pool.weight.weight)
    torch.testing.assert_close(pool(STATES, LENGTHS), Mean()(STATES, LENGTHS))
    # One unit that is large at the first rank alone: the cosine of the fastest wave, from the top.
    torch.nn.init.zeros_(pool.hidden.weight)
    torch.nn.init.zeros_(pool.hidden.bias)
    pool.hidden.weight.data[0, 2 * len(pool.waves)] = 40
    pool.hidden.bias.data[0] = -30
    pool.weight.weight.data[0, 0] = 40
    torch.testing.assert_close(pool(STATES, LENGTHS), Max()(STATES, LENGTHS))


def test_weights_are_a_distribution_over_the_words_there_are():
    torch.manual_seed(0)
    pool = Learned()
    lengths = torch.arange(1, 41)
    word = is_word(torch.zeros(40, 44, 1), lengths)
    weights = pool.weights(word, lengths)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(40, 1))
    assert (weights[~word] == 0).all()
    assert (weights[word] > 0).all()


def test_the_order_of_words_does_not_matter_but_their_number_does():
    torch.manual_seed(0)
    pool, states = Learned(), torch.randn(1, 6, 5)
    mixed = states[:, torch.tensor([3, 0, 5, 1, 2, 4])]
    torch.testing.assert_close(pool(states, torch.tensor([6])), pool(mixed, torch.tensor([6])))
    words = torch.ones(2, 6, 1, dtype=torch.bool)
    few, many = pool.weights(words, torch.tensor([3, 6]))
    assert not torch.allclose(few, many)
