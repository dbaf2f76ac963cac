"""DETR and what came of it: RT-DETR, D-FINE, DEIM, Deformable and Conditional DETR, YOLOS."""
