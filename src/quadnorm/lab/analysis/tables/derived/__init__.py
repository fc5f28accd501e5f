"""Tables of the paper that are computed from several studies."""
