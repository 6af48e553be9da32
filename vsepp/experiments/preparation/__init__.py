"""What comes before the first step, where a run needs it.

`catalogue` lists recipes and says which of them a collection is ready for; `precompute` stores the features of a frozen
net, or the maps of its first part. A run takes weights from a trained model or vectors of words from a file with
`pretrained`, and scores to imitate with `teachers`; `process_checks` compares what several processes are about to do.
"""
