"""Formats: what a target holds, as groups of undecoded variables. One module each, strangers to one another."""
