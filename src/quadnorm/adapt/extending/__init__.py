"""A trained model on other grids with the sums of its native run: see :func:`quadnorm.extend`."""
