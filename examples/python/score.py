"""Scores of candidates as a function of Python: how far each item's direction is a user's. README.md beside it says how it is served."""

import numpy

import millpond


@millpond.backend
def score(batch):
    """user, item: f32[N, 4], a row for each candidate; gives score: f32[N], the cosine of the angle between them."""
    user, item = batch["user"], batch["item"]
    lengths = numpy.linalg.norm(user, axis=1) * numpy.linalg.norm(item, axis=1)
    # A row of zeros has no direction.
    return (user * item).sum(axis=1) / numpy.maximum(lengths, numpy.float32(1e-6))
