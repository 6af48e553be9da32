"""Ports of this machine."""

import socket


def free_port():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


def is_open(port):
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0
