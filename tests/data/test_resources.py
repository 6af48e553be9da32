import os
import subprocess
import sys

import pytest

from vsepp.data import resources
from vsepp.data.ahead import num_threads
from vsepp.data.resources import Budget, memory_limit, picture_budget

GIB = 2**30


def machine(tmp_path, cgroup, limits):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    for folder, file, text in limits:
        place = tmp_path / "sys/fs/cgroup" / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(text)
    return memory_limit(tmp_path)


@pytest.mark.parametrize(
    ("cgroup", "limits", "expected"),
    [
        ("0::/\n", [("", "memory.max", "1000\n")], 1000),
        ("0::/jobs/7\n", [("jobs", "memory.max", "700\n"), ("jobs/7", "memory.max", "max\n")], 700),
        ("0::/\n", [("", "memory.max", "max\n")], None),
        ("0::/../other\n", [("", "memory.max", "900\n")], 900),
        # version 1 in a container that sees the host's path but its own group as the top
        (
            "9:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n",
            [("memory", "memory.limit_in_bytes", "800\n"), ("cpu", "memory.limit_in_bytes", "1")],
            800,
        ),
        ("4:memory:/\n", [("memory", "memory.limit_in_bytes", "9223372036854771712\n")], None),
    ],
)
def test_a_containers_limit_counts(tmp_path, cgroup, limits, expected):
    physical = memory_limit(tmp_path / "no such system")
    assert machine(tmp_path, cgroup, limits) == (expected or physical)
    assert physical > 2**28


def test_a_system_that_does_not_say(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert memory_limit(tmp_path) == resources.ASSUMED
    assert num_threads() >= 1


def test_the_processes_of_a_machine_share_memory_and_cores(monkeypatch):
    monkeypatch.setattr(resources, "memory_limit", lambda: 64 * GIB)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16), raising=False)
    for processes, memory, threads in (("1", 16 * GIB, 16), ("8", 2 * GIB, 2), ("99", None, 1)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        picture_budget.cache_clear()
        assert memory is None or picture_budget().size == memory
        assert num_threads() == threads
    picture_budget.cache_clear()


class Owner:
    pass


def test_a_budget_is_shared_and_comes_back():
    budget, training, validation = Budget(100), Owner(), Owner()
    assert budget.take(training, 60)
    assert not budget.take(validation, 50)
    assert budget.take(validation, 40)
    assert not budget.take(training, 1)
    del training
    assert budget.take(validation, 60)


def test_nothing_is_asked_on_import():
    script = (
        "import os, sys; del os.sysconf; import vsepp.loading.decoded, vsepp.data.resources as r; "
        "assert r.picture_budget.cache_info().currsize == 0"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
