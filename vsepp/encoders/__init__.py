"""Batches -> the joint space.

`joint.py` has the model, `JointEmbedding`, and its image encoder: a backbone, found by its name, and W_f. `caption.py` has what any
caption encoder is (`CaptionEncoder`) and ours, a GRU and a bag of words, with the paths by which sorted batches are
embedded fastest; `pooling.py` turns states into one. `backbones.py` has timm's nets, `net_weights.py` fills them
from files, which `plain_pickle.py` and `torch_pickle.py` read without running anything. `architecture.py` describes a
model without torch. A new net is an entry point in the group vsepp.backbones or any of timm's; a new caption
encoder implements `CaptionEncoder` and is built in `caption.caption_encoder`.
"""
