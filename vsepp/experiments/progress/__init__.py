"""A run while it goes on. After every epoch `health` stops it if its model has diverged or collapsed, `run_folder` logs it
and keeps the best snapshot, `state` saves what a killed run resumes from, and a `watcher` shows it."""
