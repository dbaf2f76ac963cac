"""Decoders: raw engine outputs to detections or anomaly verdicts. Payload: runs inside the server's python."""
