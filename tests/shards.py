"""Shards as somebody would have them."""

import tarfile
from io import BytesIO

import pytest


def as_jpeg(picture):
    data = BytesIO()
    picture.save(data, "JPEG")
    return data.getvalue()


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, BytesIO(content))


def write_parquet(path, columns):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[remote]'")
    from pyarrow.parquet import write_table

    write_table(pyarrow.table(columns), path)
