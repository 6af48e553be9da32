"""From a text to a vector and a threshold: language.py parses, spelling.py replaces unknown words, compose.py encodes,
threshold.py decides from which score on photos are shown."""
