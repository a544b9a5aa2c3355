"""Sources for tests: an Arrow table in memory that records what it was asked."""
