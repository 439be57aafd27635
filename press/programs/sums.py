"""The GIL-bound function of report R4 as a model of a server: press/scenarios/r4-gil.config.toml names it."""

import numpy

import millpond
from r4 import add_up


@millpond.backend
def summed(batch):
    """x: i64[1], which is not looked at; gives y: i64[1]."""
    return numpy.full(batch["x"].shape, add_up(), numpy.int64)
