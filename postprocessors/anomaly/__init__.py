"""Anomaly heads."""
