"""One run of a model, seen call by call, that leaves no trace in it."""
