"""What every runner promises, as tests."""
