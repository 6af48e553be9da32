"""Nearest neighbours: the protocol (protocol.py), the exact index (exact.py), its similarities (numpy_similarity.py), and
how an index follows an SQLite file (live.py). Others are in vsepp.engines."""
