"""What strangers may send: does a file or a request bring a traceback, a 5xx, a hang or too much memory?

    python benchmarks/hostile.py                                 20,000 files, 20,000 requests
    python benchmarks/hostile.py --only files --count 500
    python benchmarks/hostile.py --only files --seed 0 --case 4711      one again, with its traceback

Files go through `vsepp index`, `data`, `embed`, `search` and `evaluate`, in processes that are measured;
requests to a real `vsepp serve` on 127.0.0.1. A case is the same for the same seed and number.
"""

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from records import RECORDS, write_record

sys.path.insert(0, str(Path(__file__).parents[1]))
import kill_cases  # noqa: F401 what its processes load once, ours share
from hostile_files import Kind, kinds
from hostile_requests import ask_all

from tests.commands import forks

SECONDS = 60  # for one group of files
MEGABYTES = 1_000  # beyond what a process had before: 640 are what one picture may take, twice what Pillow holds of it
ENOUGH = 100  # findings of one kind
EXPECTED = (0, 1, 2)  # exit codes


@dataclass
class Outcome:
    codes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    megabytes: float = 0.0


def main() -> None:
    asked = arguments()
    measured = before(asked.only)
    if asked.only in (None, "files"):
        measured["files"] = files(asked.count, asked.seed, asked.case)
        print(json.dumps(measured["files"], indent=2), flush=True)
    if asked.only in (None, "requests"):
        measured["requests"] = ask_all(asked.count, asked.seed, asked.case)
        measured["requests"]["findings"] = distinct(measured["requests"]["findings"])
        print(json.dumps(measured["requests"], indent=2), flush=True)
    if asked.case is None:
        print(
            write_record(
                Path(__file__), measured, ("onnxruntime", "pillow", "starlette", "uvicorn")
            )
        )
    sys.exit(any(part["findings"] for part in measured.values()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--only", choices=("files", "requests"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    return parser.parse_args()


def before(only: str | None) -> dict[str, Any]:
    """The other half of the last record, where one half alone is asked for."""
    last = sorted(RECORDS.glob(f"????-??-??-{Path(__file__).stem}/record.json"))[-1:]
    return json.loads(last[0].read_text())["measured"] if only and last else {}


# ---- files ----------------------------------------------------------------------------------


def files(count: int, seed: int, case: int | None) -> dict[str, Any]:
    started, outcomes = time.monotonic(), {}
    names = list(kinds())
    with tempfile.TemporaryDirectory() as place:
        for number, (name, kind) in enumerate(kinds().items()):
            cases = list(range(number, count, len(names)))
            if case is not None:
                cases = [case] if case % len(names) == number else []
            outcomes[name] = of_kind(kind, cases, seed, Path(place))
            print(
                f"{name}: {len(cases)} files, {len(outcomes[name].findings)} findings", flush=True
            )
    return {
        "seed": seed,
        "files": 1 if case is not None else count,
        "seconds": round(time.monotonic() - started),
        "exit_codes": {name: dict(sorted(one.codes.items())) for name, one in outcomes.items()},
        "peak_megabytes": {name: round(one.megabytes) for name, one in outcomes.items()},
        "findings": distinct(
            f"{name}, {said}" for name, one in outcomes.items() for said in one.findings
        ),
    }


def distinct(findings: Iterable[str]) -> list[str]:
    """The first of those that say the same, and how many there were."""
    alike: dict[str, list[str]] = {}
    for said in findings:
        alike.setdefault(re.sub(r"case \d+|(?<=: ).*(?= \| File)|[0-9]", "", said), []).append(said)
    return [
        group[0] + (f" ({len(group)} times)" if len(group) > 1 else "") for group in alike.values()
    ]


def of_kind(kind: Kind, cases: list[int], seed: int, place: Path) -> Outcome:
    outcome = Outcome()
    size = kind.together if kind.together > 1 else 20  # commands in one process
    for start in range(0, len(cases), size):
        group = cases[start : start + size]
        together = [group] if kind.together > 1 else [[case] for case in group]
        done = in_a_process(kind, together, seed, place)
        if done.findings and len(group) > 1:  # which one was it?
            done.findings.clear()
            for case in group:
                alone = in_a_process(kind, [[case]], seed, place)
                done.findings += alone.findings[:1]
            if not done.findings:
                done.findings.append(f"seed {seed}, cases {group}: only together")
        outcome.codes += done.codes
        outcome.findings += done.findings
        outcome.megabytes = max(outcome.megabytes, done.megabytes)
        if len(outcome.findings) >= ENOUGH:
            break
    return outcome


def in_a_process(kind: Kind, groups: list[list[int]], seed: int, place: Path) -> Outcome:
    """Write each group of cases, and run the kind's commands on it."""
    result, folder = place / "result.json", place / "cases"
    result.unlink(missing_ok=True)
    commands = []
    for number, group in enumerate(groups):
        own = folder / f"{number}"
        own.mkdir(parents=True)
        for case in group:
            kind.write(random.Random(f"{seed}:{case}"), own, case)
        commands += kind.commands(own)
    process = forks.Process(target=_run_commands, args=(commands, str(result)))
    process.start()
    process.join(SECONDS)
    outcome = Outcome()
    label = f"seed {seed}, case {groups[0][0]}"
    if process.is_alive():
        process.kill()
        process.join()
        outcome.findings.append(f"{label}: took longer than {SECONDS} s")
    elif process.exitcode:
        outcome.findings.append(f"{label}: ended by signal or code {process.exitcode}")
    else:
        _judge(json.loads(result.read_text()), label, outcome)
    _clear(place)
    return outcome


def _clear(place: Path) -> None:
    shutil.rmtree(place / "cases")
    for made in place.glob("made*"):
        made.unlink()


def _judge(said: dict[str, Any], label: str, outcome: Outcome) -> None:
    outcome.codes.update(str(code) for code in said["codes"])
    outcome.megabytes = said["megabytes"]
    outcome.findings += [f"{label}: {trace}" for trace in said["traces"]]
    if said["megabytes"] > MEGABYTES:
        outcome.findings.append(f"{label}: took {said['megabytes']:.0f} MB")


def _run_commands(commands: list[list[str]], result: str) -> None:
    """In a process of its own: every command as from a terminal, whatever the one before did."""
    import warnings

    from vsepp.cli import app

    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    codes, traces, resident = [], [], _status("VmRSS")
    for words in commands:
        sys.argv = ["vsepp", *words]
        with warnings.catch_warnings():
            try:
                app(prog_name="vsepp")
            except SystemExit as end:
                codes.append(end.code or 0)
                if end.code not in (*EXPECTED, None):
                    traces.append(f"{words[0]} ended with {end.code}")
            except BaseException as error:
                codes.append(type(error).__name__)
                traces.append(f"vsepp {words[0]}: {_shortened(traceback.format_exc())}")
    megabytes = (_status("VmHWM") - resident) / 1000
    Path(result).write_text(json.dumps({"codes": codes, "traces": traces, "megabytes": megabytes}))


def _shortened(trace: str) -> str:
    """The last line and where it was raised, in our own code."""
    lines = trace.strip().splitlines()
    ours = [line.strip() for line in lines if "vsepp/" in line and line.strip().startswith("File")]
    return " | ".join([lines[-1][:300], *ours[-2:]])


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
