"""`vsepp ...` in a process of its own, which can be killed, without the seconds that torch takes to load.

Processes are forked off a server that has loaded it once and done nothing with it yet.
"""

import multiprocessing
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(
    ["vsepp.cli", "vsepp.experiments.run", "torch.utils.tensorboard", "timm", "torch.onnx"]
)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def run(words, cwd=None):
    """Waits for its end, as subprocess.run does."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = _started(words, out, err, cwd or ".")
        process.join()
        return Done(process.exitcode, out.read_text(), err.read_text())


def start(words, log):
    """The running process: it has kill(), join() and exitcode. What it says goes to the file `log`."""
    return _started(words, log, log, ".")


def _started(words, out, err, cwd):
    where = [str(Path(place).absolute()) for place in (out, err, cwd)]
    process = forks.Process(target=_vsepp, args=([str(word) for word in words], *where))
    process.start()
    return process


def _vsepp(words, out, err, cwd):
    for file, descriptor in ((out, 1), (err, 2)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), descriptor)
    os.chdir(cwd)
    from vsepp.cli import app

    sys.argv = ["vsepp", *words]
    app(prog_name="vsepp")
