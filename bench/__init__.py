"""Figures for docs/performance.md: `make bench`, or `python -m bench NAME...` for some of them."""
