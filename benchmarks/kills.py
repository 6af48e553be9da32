"""Killed a thousand times: is anything lost, there twice, or other than in an undisturbed run?

    python benchmarks/kills.py                                    1,000 kills
    python benchmarks/kills.py --kills 50 --only index-folder     one command; --seed for others

SIGKILL at random moments of `vsepp index` (a folder, shards, with --prune, on Ray) and `vsepp train`.
A trial is one to four kills; then the command runs to its end and what it made is compared with what an
undisturbed run made: photos, metadata, folders and scores; weights and losses to the last bit.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray_job import RayJob
from records import RECORDS, write_record

sys.path.insert(0, str(Path(__file__).parents[1]))
import kill_cases
from kill_cases import Case, ending, finished, was_finished

CASES = {
    "index-folder": (kill_cases.index_folder, 0.36),
    "index-shards": (kill_cases.index_shards, 0.24),
    "index-prune": (kill_cases.index_prune, 0.2),
    "train": (kill_cases.train, 0.136),
    "train-graphs": (kill_cases.train_with_graphs, 0.04),
    "index-ray": (kill_cases.index_ray, 0.024),  # slow to start
}


@dataclass
class Tally:
    kills: int = 0
    trials: int = 0
    too_late: int = 0  # it had finished before the kill
    tenths: Counter[int] = field(default_factory=Counter)  # of the undisturbed time
    met: Counter[str] = field(default_factory=Counter)  # what was safe at the kill
    findings: list[str] = field(default_factory=list)

    def as_dict(self, seconds: float) -> dict[str, Any]:
        return {
            "kills": self.kills,
            "trials": self.trials,
            "finished_before_the_kill": self.too_late,
            "undisturbed_seconds": round(seconds, 2),
            "kills_by_tenth_of_the_undisturbed_time": [self.tenths[n] for n in range(10)],
            "kept_at_the_kill": dict(sorted(self.met.items())),
            "findings": self.findings,
        }


def main() -> None:
    asked = arguments()
    measured = before(asked.only) | {"seed": asked.seed}
    for name, (case, share) in CASES.items():
        if asked.only in (None, name):
            kills = asked.kills if asked.only else max(1, round(asked.kills * share))
            with tempfile.TemporaryDirectory() as place:
                measured[name] = series(case(Path(place)), kills, Path(place), asked.seed)
            print(name, json.dumps(measured[name]), flush=True)
    if RayJob.num_left_behind:
        measured["ray_clusters_left_behind"] = RayJob.num_left_behind
    runs = [run for run in measured.values() if isinstance(run, dict)]
    measured["kills"] = sum(run["kills"] for run in runs)
    measured["findings"] = sum(len(run["findings"]) for run in runs)
    print(write_record(Path(__file__), measured, ("onnxruntime", "pillow", "ray")))
    sys.exit(bool(measured["findings"]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def before(only: str | None) -> dict[str, Any]:
    """The other commands' part of the last record, where one command alone is asked for."""
    last = sorted(RECORDS.glob(f"????-??-??-{Path(__file__).stem}/record.json"))[-1:]
    return json.loads(last[0].read_text())["measured"] if only and last else {}


def series(case: Case, kills: int, place: Path, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    seconds, expected = undisturbed(case, place)
    tally = Tally()
    while tally.kills < kills:
        trial = place / f"trial-{tally.trials}"
        try:
            in_a_row = min(chance.randint(1, 4), kills - tally.kills)
            disturbed(case, trial, seconds, in_a_row, chance, tally)
            if said := case.differs(case.made(trial), expected):
                raise AssertionError(said)
        except Exception as error:
            tally.findings.append(f"seed {seed}, trial {tally.trials}: {error}"[:2000])
        tally.trials += 1
        shutil.rmtree(trial, ignore_errors=True)
        if len(tally.findings) >= 10:
            break
    return tally.as_dict(seconds)


def undisturbed(case: Case, place: Path) -> tuple[float, Any]:
    times = []
    for number in range(3):  # the first one loads what the others share
        folder, log = place / f"whole-{number}", place / f"whole-{number}.log"
        case.begin(folder)
        started = time.monotonic()
        finished(case.start(folder, log), log)
        times.append(time.monotonic() - started)
    made = [case.made(place / f"whole-{number}") for number in range(3)]
    assert not case.differs(made[0], made[1]), "two undisturbed runs differ"
    return statistics.median(times[1:]), made[0]


def disturbed(
    case: Case, folder: Path, seconds: float, kills: int, chance: random.Random, tally: Tally
) -> None:
    case.begin(folder)
    log = folder.with_suffix(".log")
    kept = 0
    for _ in range(kills):
        moment = chance.random() ** 0.5  # late ones are likelier: starting writes nothing
        if not kill_once(case, folder, log, moment * seconds):
            tally.too_late += 1
            break
        tally.kills += 1
        tally.tenths[int(moment * 10)] += 1
        now = case.safe(folder)
        assert now >= kept, f"{kept} were kept, and {now} are left after a kill at {moment:.3f}"
        kept = now
        tally.met["something" if kept else "nothing"] += 1
    log.write_text("")
    finished(case.start(folder, log), log)


def kill_once(case: Case, folder: Path, log: Path, after: float) -> bool:
    """Whether the process was still running when it was killed."""
    log.touch()
    process = case.start(folder, log)
    time.sleep(after)
    is_running = process.exitcode is None
    process.kill()
    process.join()
    was_done = was_finished(process, log)
    assert was_done or process.exitcode in (0, -signal.SIGKILL), ending(process, log)
    return is_running and not was_done


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
