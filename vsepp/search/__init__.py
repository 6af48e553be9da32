"""Photo search without torch.

Indexing a photo: `vsepp index` (cli/searching.py) opens or creates a `Collection` (collection.py) and calls
`adding`. add_photos (adding.py) lists the source (sources/local.py; sources/remote.py and
sources/archives.py for remote storage and shards), compares the listing with the store, and gives new files to
workers. The task is `EmbedPhotos` (embedding.py): threads read and decode files while the `Embedder`
(embedder.py) runs the image graph. Each batch is stored in one transaction by `SqliteStore` (stores/sqlite.py,
whose file stores/sqlite_file.py creates and opens) or by another store of the protocol in stores/store.py;
registry.py finds those by URL.

Answering a query: `Collection.search` parses the text (query/language.py), encodes words and a photo as one
vector (query/compose.py, with the embedder; query/spelling.py replaces unknown words), asks the store for its
index, which index/live.py keeps up to date, searches it (index/exact.py scores all photos with
index/numpy_similarity.py), and leaves out what scores less than query/threshold.py allows. duplicates.py groups
near-duplicates; the answer is a `SearchResult` (results.py), which contact_sheet.py shows as a page.
stores/identity.py makes sure that a collection is searched with the model that made it; embed_files.py is
`vsepp embed`.
"""
