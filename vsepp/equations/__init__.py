"""The paper's equations: pure functions of tensors, readable beside it.

`similarity.py` scores images against captions (Eq. 3), `losses.py` turns a matrix of scores into one loss per
pair (Eqs. 5 and 6), `ranking.py` counts ranks, `correlation.py` and `sampling.py` hold Secs. 2.1 and 2.3. They know
tensors and nothing else: kernels for a GPU register themselves in `similarity.FUSED`. A new loss or similarity is a
function here and a name in `LOSSES` or `SIMILARITIES`, with a test by hand, by a slow twin and by law.
"""
