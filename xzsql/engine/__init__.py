"""DuckDB: the only package that imports it. Knows tables as `TableSource`s, not where they come from."""
