"""Images to network input."""
