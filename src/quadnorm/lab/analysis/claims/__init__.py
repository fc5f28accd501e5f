"""The claims of the paper, and what records say about them."""
