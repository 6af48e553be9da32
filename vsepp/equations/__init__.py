"""The blackboard: pure functions of tensors, readable beside the paper."""
