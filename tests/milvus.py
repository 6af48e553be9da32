"""Real Milvus servers for tests, on free ports of this machine, stopped by those who started them."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.ports import free_port, is_open
from vsepp.errors import WorkFailed

ROOT = Path(__file__).parents[1]
COMMAND = Path(os.environ.get("VSEPP_MILVUS_SERVER", ROOT / ".venv-milvus/bin/milvus-server"))
PATIENCE = 300  # seconds: machines are shared
HOW_TO_GET_IT = (
    "needs a Milvus server: python3 -m venv .venv-milvus && "
    '.venv-milvus/bin/pip install milvus==2.3.5 "setuptools<80"'
)


class MilvusServer:
    """Can be killed, and started again with what it has stored."""

    def __init__(self, folder, seconds_to_forget=15):
        if not COMMAND.exists():
            pytest.skip(HOW_TO_GET_IT)
        pytest.importorskip("pymilvus", reason="needs pymilvus: pip install '.[milvus]'")
        self.folder = folder
        self._seconds_to_forget = seconds_to_forget  # a server that was killed; a busy one, too
        self.port = free_port()
        self.start()

    def url(self, name):
        return f"milvus://127.0.0.1:{self.port}/{name}"

    def start(self):
        data = self.folder / "data"
        words = [COMMAND, "--data", data, "--proxy-port", str(self.port)]
        if data.exists():  # what the command has unpacked there; it would not take a port twice
            words = [data / "bin/milvus", "run", "standalone"]
            data.joinpath("run").mkdir(exist_ok=True)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # A group of its own: what is started below ends with it.
        self._process = subprocess.Popen(
            words,
            env=os.environ | self._settings(),
            cwd=data if data.exists() else None,
            start_new_session=True,
            **quiet,
        )
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, "Milvus has ended; its folder holds its logs"
            assert time.monotonic() < end, f"Milvus was not there after {PATIENCE} s"
            time.sleep(0.1)

    def _answers(self):
        from vsepp.engines.milvus_connection import Address, Connection

        if not is_open(self.port):
            return False
        connection = Connection(Address.of(f"//127.0.0.1:{self.port}/any"), timeout=1)
        try:
            return connection.call("list_collections") is not None
        except WorkFailed:
            return False
        finally:
            connection.close()

    def _settings(self):
        """Its etcd would take the same port on every machine; two servers may be wanted on one."""
        file = self.folder / "etcd.yaml"
        if not file.exists():
            client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
            file.write_text(
                f"name: default\ninitial-cluster: default={peer}\n"
                f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\n"
                f"listen-client-urls: {client}\nadvertise-client-urls: {client}\n"
            )
        data = self.folder / "data"
        return {
            "ETCD_CONFIG_PATH": str(file),
            "COMMON_SESSION_TTL": str(self._seconds_to_forget),
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(free_port()),
            "MILVUS_RUN_DIR": str(data / "run"),
            "LD_LIBRARY_PATH": f"{data / 'bin'}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        }

    def kill(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        while is_open(self.port):
            time.sleep(0.05)

    def stop(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def emptied(index):
    """An index without its rows: to make a collection takes a server seconds."""
    everything = {"filter": 'key != ""', "output_fields": ["key"], "limit": 16_000}
    rows = index.connection.call("query", index.name, consistency_level="Strong", **everything)
    index.remove([row["key"] for row in rows])
    return index
