import subprocess
import sys
from threading import Event

import pytest

from vsepp.data.resources import AHEAD, made_ahead


def test_work_ahead_keeps_its_order_and_hands_on_errors():
    assert list(made_ahead(range(50), lambda number: number * number)) == [n * n for n in range(50)]

    def broken(number):
        if number == 3:
            raise ValueError("three")
        return number

    with pytest.raises(ValueError, match="three"):
        list(made_ahead(range(50), broken))


def test_work_goes_on_while_the_reader_is_busy():
    begun = [Event() for _ in range(20)]
    made = made_ahead(range(20), lambda number: begun[number].set() or number)
    assert next(made) == 0
    assert begun[AHEAD].wait(timeout=120)  # nobody has asked for it yet
    assert not begun[-1].is_set()  # nor is everything made at once
    made.close()


def test_it_needs_no_torch():
    script = "import sys, vsepp.data.resources; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
