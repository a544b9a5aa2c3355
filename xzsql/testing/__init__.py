"""For tests of xzsql and of what is built on it: sources, spies, an oracle, strategies, a conformance class."""
