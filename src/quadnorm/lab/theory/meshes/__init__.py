"""How the nodes of an unstructured mesh bias a norm's mean, variance and output."""
