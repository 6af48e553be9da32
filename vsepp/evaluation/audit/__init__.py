"""A split examined as a test set: `findings` looks for leaks, ambiguous captions and queries that no model answers,
`page` shows them with their photos."""
