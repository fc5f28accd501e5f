"""One module for each command of ``quadnorm``."""
