"""Where collections are stored: the protocol and its records (store.py), the SQLite file (sqlite.py, sqlite_file.py), and
the check that a model belongs to a collection (identity.py). Milvus is in vsepp.engines."""
