"""YOLO heads."""
