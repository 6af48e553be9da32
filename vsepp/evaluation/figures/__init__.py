"""Figures of the paper from anybody's runs: `curves` draws learning curves (Fig. 2), `examples` picks hard negatives
(Fig. 3) and top captions (Fig. A.1), which `cards` draws; `pages` shows the same as HTML, in the colours of `palette`."""
