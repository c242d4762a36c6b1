"""What alveus uses of Apache Flink's Python API, which has no types and lives elsewhere."""
