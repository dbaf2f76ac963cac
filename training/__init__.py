"""Draws, trains and evaluates the three small test packages; no part of the product."""
