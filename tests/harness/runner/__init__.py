"""The contract of a runner."""
