"""How much memory a piece of code needs beyond what was there before it."""

import subprocess
import sys
import textwrap


def peak_extra_megabytes(prepare: str, measure: str) -> float:
    """Run both in a process of their own; the growth of its peak during `measure`, in MB."""
    script = (
        textwrap.dedent(prepare)
        + "\nfrom pathlib import Path\n"
        + "Path('/proc/self/clear_refs').write_text('5')  # the peak starts anew\n"
        + "def status(field):\n"
        + "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        + "    return next(int(line.split()[1]) for line in lines if line.startswith(field))\n"
        + "before = status('VmRSS')\n"
        + textwrap.dedent(measure)
        + "\nprint(status('VmHWM') - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1]) / 1000
