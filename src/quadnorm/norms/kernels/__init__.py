"""How the weighted norm is computed: one formula, several kernels, and the choice between them."""
