"""Pictures and captions -> batches."""
