"""Outside engines, loaded by entry points like those of other packages (docs/extend.md).

usearch.py is an approximate index for one machine, which vsepp.search.index.live uses for large collections.
A collection in Milvus is a milvus_store.MilvusStore: its photos and vectors are rows (milvus_rows.py), its
index is a milvus.MilvusIndex, and both call the server through milvus_connection.py, which retries while it
does not answer. ray.py executes the task of vsepp.search.embedding on a cluster, for `vsepp index --on`.
"""
