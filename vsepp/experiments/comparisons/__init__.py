"""Models beside each other, and beside the paper.

`paper` has a row's results of several seeds, the printed numbers, and remarks on what differs. `benchmark` measures any
models or files of vectors for `vsepp evaluate`, `compare` and `audit`; `figures` draws learning curves, hard negatives
and what several models find. `demo` trains three models on generated scenes and compares them.
"""
