"""Where photos come from: local files (local.py), remote storage (remote.py), tar and parquet shards (archives.py)."""
