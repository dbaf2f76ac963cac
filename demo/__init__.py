"""What `make demo` runs; not part of the wheel."""
