"""Backends of the store promise, one module each, blind to each other."""
