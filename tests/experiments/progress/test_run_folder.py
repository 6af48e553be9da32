"""Which epoch is kept."""

import pytest

from vsepp.equations.ranking import Recall
from vsepp.evaluation.retrieval import Retrieval
from vsepp.experiments.progress.run_folder import Keeper, Run


def scored(r1=90.0, r5=100.0, mean_rank=1.5):
    side = Recall(r1, r5, 100.0, 1.0, mean_rank)
    return Retrieval(side, side, "full", 15, 75)


@pytest.mark.parametrize(
    ("before", "now", "is_better"),
    [
        (scored(90.0), scored(91.0, mean_rank=9.0), True),  # recall decides
        (scored(91.0), scored(90.0, mean_rank=1.0), False),
        (scored(90.0), scored(90.0, mean_rank=1.4), True),  # then ranks
        (scored(90.0), scored(90.0, mean_rank=1.6), False),
        (scored(90.0), scored(90.0), True),  # then the later epoch, which has learned more
        (scored(10.1, 20.2), scored(20.2, 10.1), True),  # equal but for the last digit of a sum
    ],
)
def test_the_best_epoch_of_equals_has_lower_ranks_or_is_later(tmp_path, before, now, is_better):
    keeper = Keeper(None, {}, None, None, None, tmp_path)
    assert keeper.is_best(before)  # the first always is
    keeper.best = Run(tmp_path, 1, before)
    assert keeper.is_best(now) is is_better
