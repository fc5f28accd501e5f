"""One run of a model, seen call by call.

``live.py``: the mode that sees each call on live tensors; ``patches.py``: what it would not see by itself;
``transforms.py``: what ``vmap`` and ``grad`` hide from it. ``watch.py``: the list of all calls of a run. ``quiet.py``:
runs that leave no trace in the model.
"""
