"""Turn a vision model package into a Triton model repository, serve it and call it."""
