"""The definitions of all studies."""
