"""`vsepp ...` in a process of its own, which can be killed, without the seconds that torch takes to load.

Processes are forked off a server that has loaded it once and done nothing with it yet.
"""

import multiprocessing
import sys
from pathlib import Path

forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(
    ["vsepp.cli", "vsepp.experiments.run", "torch.utils.tensorboard", "timm", "torch.onnx"]
)


def start(words, log):
    """The running process: it has kill(), join() and exitcode. What it says goes to the file `log`."""
    process = forks.Process(target=_vsepp, args=([str(word) for word in words], str(log)))
    process.start()
    return process


def _vsepp(words, log):
    from vsepp.cli import app

    sys.argv = ["vsepp", *words]
    sys.stdout = sys.stderr = Path(log).open("a", buffering=1)  # noqa: SIM115 as long as it lives
    app(prog_name="vsepp")
