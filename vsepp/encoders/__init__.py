"""Batches -> vectors in the joint space.

`joint.py` contains the model, `JointEmbedding`, and its image encoder: a backbone, found by its name, and W_f.
`caption.py` contains the protocol `CaptionEncoder` and ours, a GRU and a bag of words, with the fastest paths for
sorted batches; `pooling.py` turns the GRU's states into one vector. `backbones.py` builds timm's nets, `net_weights.py`
loads their weights from files, `halves.py` splits a net into a frozen and a trained part. `architecture.py` describes
a model without torch. A new net is any of timm's or an entry point in the group vsepp.backbones; a new caption encoder
implements `CaptionEncoder` and is built in `caption.caption_encoder`.
"""
