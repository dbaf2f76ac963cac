"""RF-DETR heads."""
