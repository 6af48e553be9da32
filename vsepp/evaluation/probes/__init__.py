"""Probes of language: pictures with a true caption and nearly the same, false ones.

`probe` defines them and their accuracies; `published` reads those that others collected, `generated` makes them from the
built-in world, where truth is known, or from any captions by exchanging words.
"""
