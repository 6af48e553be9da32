"""Batches -> better weights: one loop, two steppers.

`trainer.py` is the door (`train`, `steps_and_epochs`): it picks a stepper, and refuses what cannot be combined.
`loop.py` owns phases, learning rates, epoch numbers and events, and says what is minimised (`Objective`). A
stepper does the steps: `plain.py` for any model, in chunks and by several processes; `captured.py` with the data
on the device and CUDA graphs. `optimizer.py` turns gradients into weights: clipping, Adam, their average.
`correlation.py` solves instead of training (Sec. 2.1). A new loss is a function in equations/losses.py; a new
stepper implements `loop.Stepper` and is chosen in `trainer.fastest_stepper`.
"""
