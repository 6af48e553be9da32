"""The odds of meeting a hard negative in a random batch (Sec. 2.3)."""

import math


def chance_of_a_hard_negative(batch_size: int, percentile: float = 0.9) -> float:
    """How likely one of a query's M - 1 negatives is harder than `percentile` of all."""
    return 1 - percentile ** (batch_size - 1)


def smallest_batch(percentile: float = 0.9, risk: float = 0.01) -> int:
    """The smallest M that misses the hard share with a probability below `risk`."""
    # differs from the paper: Sec. 2.3 prints 44 and 6,905; its own formula gives 45 and 4,604
    # (44 counts the negatives instead of the batch, 6,905 is the bound for a risk of 0.1 %).
    return math.floor(math.log(risk) / math.log(percentile)) + 2
