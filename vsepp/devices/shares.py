"""Who takes which rows: contiguous shares that differ by one row at most."""


def share(length: int, rank: int, number: int) -> slice:
    """The rows of process `rank` among `number`; where there are too few, the last ones get none."""
    least, left_over = divmod(length, number)
    start = rank * least + min(rank, left_over)
    return slice(start, start + least + (rank < left_over))


def largest_share(length: int, number: int) -> int:
    return -(-length // number)
