"""The demonstration: a real training, a simulated fleet, and the whole path from them to a statement.

``python -m demo`` runs it (``make demo``). It uses the product as anyone would: the commands of
``actuary`` as processes, the monitor inside the training.
"""
