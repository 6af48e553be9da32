"""Batches -> better weights: one loop, and steps of three kinds.

`trainer.py` is the entry point (`train`, `steps_and_epochs`): it picks a stepper, and refuses what cannot be combined.
`loop.py` is the part to read first: learning rates, what is minimised (`Objective`), a step by `PlainStepper`, clipping,
epochs and events. `averaging.py` keeps the moving average of the weights. `divided.py` takes steps on batches in chunks or shared by several processes,
`captured.py` with the data on the device and CUDA graphs. `correlation.py` solves instead of training (Sec. 2.1). A new
loss is a function in equations/losses.py; a new stepper implements `loop.Stepper` and is chosen in `trainer._stepper`.
"""
