from vsepp.equations.ranking import Recall
from vsepp.evaluation.reports.paper_table import text
from vsepp.evaluation.retrieval import Retrieval

RESULT = Retrieval(
    Recall(64.6, 90, 95.7, 1, 3.4), Recall(52, 84.3, 100, 1, 6.1), "5x1k", 5000, 25000
)


def test_the_table_of_a_terminal():
    lines = text([("VSE++", RESULT), ("VSE0 (both norms)", RESULT)]).splitlines()
    assert " ".join(lines[1].split()) == "Model R@1 R@5 R@10 Med r R@1 R@5 R@10 Med r rsum"
    assert " ".join(lines[3].split()) == "VSE++ 64.6 90.0 95.7 1.0 52.0 84.3 100.0 1.0 486.6"
    assert max(len(line) for line in lines) <= 80
    assert len({len(line) for line in lines[1:]}) == 1  # columns stand under each other
