"""Trained models as folders.

`snapshot` saves and loads them, with ONNX graphs by `export` (and `caption_graph` for the caption encoders);
`released` imports the authors' checkpoints; `surgery` averages models, shortens their vectors, or adds words.
"""
