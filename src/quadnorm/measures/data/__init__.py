"""What the coordinates of data say: which axis is which, where its samples lie, and the measure of all of them."""
