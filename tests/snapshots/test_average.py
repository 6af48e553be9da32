import pytest
import torch

from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.snapshots.snapshot import Snapshot
from vsepp.snapshots.surgery import average_weights


def snapshot(seed, captions="a red ball on a blue box", dim=24):
    torch.manual_seed(seed)
    vocabulary = Vocabulary.learn([captions])
    design = {"size": 32, "resize": 32, "dim": dim, "word_dim": 8}
    plan = Architecture(num_words=len(vocabulary), **design)
    return Snapshot(JointEmbedding.build(plan).eval(), vocabulary, plan, {"seed": seed})


def test_every_weight_is_the_mean_and_the_others_stay_as_they_are():
    models = [snapshot(seed) for seed in range(3)]
    before = [{n: t.clone() for n, t in one.model.state_dict().items()} for one in models]
    mean = average_weights(models)
    for name, tensor in mean.model.state_dict().items():
        expected = sum(state[name].double() for state in before) / 3
        torch.testing.assert_close(tensor.double(), expected, rtol=1e-6, atol=1e-7)
        for one, state in zip(models, before, strict=True):
            assert torch.equal(one.model.state_dict()[name], state[name])
    assert (mean.notes, mean.vocabulary) == ({"seed": 0}, models[0].vocabulary)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], "at least two"),
        ([snapshot(1, dim=16)], "one architecture: model 2"),
        ([snapshot(1, "a red ball on a blue hat")], "one vocabulary: model 2"),
    ],
)
def test_what_has_no_mean_is_said(others, message):
    with pytest.raises(WrongRequest, match=message):
        average_weights([snapshot(0), *others])
