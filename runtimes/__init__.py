"""Engines and preprocessing behind one contract. Payload: runs inside the server's python."""
