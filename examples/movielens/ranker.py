"""The ranker: embeddings, products of what describes the user with what describes the film, two hidden layers.

Plain numpy, forward and backward by hand, Adam, fixed seeds. It reads rows and writes parameters; files, hashing
and the choice of hyperparameters are others' work. `keys.BLOCKS` is the order of the model's input, which the
exported model, the server's pipeline and the offline evaluation all share.
"""

from dataclasses import dataclass

import numpy as np

from keys import BLOCKS, SLOTS

# Numbers of each vector of the input.
DIM = 16
HIDDEN = (32, 16)

# Elementwise products that the model computes itself: how the user's side meets the film's side.
PRODUCTS = (("user", "film"), ("user", "genres"), ("history", "film"), ("history", "genres"))

LAYERS = (DIM * (len(BLOCKS) + len(PRODUCTS)), *HIDDEN, 1)
INITIAL_SPREAD = 0.05
BATCH_ROWS = 512

_PAIRS = [(BLOCKS.index(left), BLOCKS.index(right)) for left, right in PRODUCTS]


@dataclass(frozen=True)
class Hyperparameters:
    """What is chosen on the slice; everything else is fixed above."""

    learning_rate: float
    weight_decay: float  # pulls embeddings towards zero; a film seen once must not shout
    epochs: int


def initial(vocab, rng):
    """Random parameters: the table, the genre vectors, and each layer's weights and biases."""
    parameters = {
        "table": rng.normal(0, INITIAL_SPREAD, (vocab.size, DIM)),
        "genres": rng.normal(0, INITIAL_SPREAD, (vocab.genres.shape[1], DIM)),
    }
    for layer, (wide, narrow) in enumerate(zip(LAYERS, LAYERS[1:])):
        parameters[f"weight{layer}"] = rng.normal(0, np.sqrt(2 / wide), (wide, narrow))
        parameters[f"bias{layer}"] = np.zeros(narrow)
    return {name: value.astype(np.float32) for name, value in parameters.items()}


def film_rows(vocab):
    """The part of the table that holds the films."""
    first = vocab.offsets["film"]
    return slice(first, first + len(vocab.values["film"]))


def _history_weights(history, films_known):
    """[rows, films]: 1 / length at each film of a row's history. Makes pooling, and its gradient, one product."""
    weights = np.zeros((len(history), films_known + 1), np.float32)
    lengths = (history < films_known).sum(1, keepdims=True)
    weights[np.arange(len(history))[:, None], history] = 1 / np.maximum(lengths, 1)
    return weights[:, :films_known]


def blocks(parameters, vocab, rows, chosen):
    """The input of the model for some rows, [n, BLOCKS, DIM], and the history weights that it was made with."""
    table = parameters["table"]
    single = table[rows.index[chosen]]
    genres = vocab.genres[rows.films[chosen]] @ parameters["genres"]
    weights = _history_weights(rows.history[chosen], len(vocab.values["film"]))
    history = weights @ table[film_rows(vocab)]
    return np.concatenate([single, genres[:, None], history[:, None]], axis=1), weights


def _layers(parameters, x):
    """What every layer puts out, the input with its products first, the logit last."""
    products = [x[:, left] * x[:, right] for left, right in _PAIRS]
    outputs = [np.concatenate([x.reshape(len(x), -1), *products], axis=1)]
    for layer in range(len(LAYERS) - 1):
        value = outputs[-1] @ parameters[f"weight{layer}"] + parameters[f"bias{layer}"]
        outputs.append(np.maximum(value, 0) if layer < len(HIDDEN) else value)
    return outputs


def scores(parameters, vocab, rows):
    """The chance that each event was liked, as the trainer itself computes it."""
    parts = []
    for first in range(0, len(rows.labels), 2048):
        x, _ = blocks(parameters, vocab, rows, slice(first, first + 2048))
        parts.append(_layers(parameters, x)[-1][:, 0])
    return 1 / (1 + np.exp(-np.concatenate(parts)))


def gradients(parameters, vocab, rows, chosen, weight_decay):
    """Gradients of the mean log loss over some rows (and of the decay of the embeddings)."""
    x, history_weights = blocks(parameters, vocab, rows, chosen)
    outputs = _layers(parameters, x)
    count = len(x)
    found = {}
    flowing = (1 / (1 + np.exp(-outputs[-1])) - rows.labels[chosen, None]) / count
    for layer in reversed(range(len(LAYERS) - 1)):
        found[f"weight{layer}"] = outputs[layer].T @ flowing
        found[f"bias{layer}"] = flowing.sum(0)
        flowing = flowing @ parameters[f"weight{layer}"].T
        if layer > 0:
            flowing *= outputs[layer] > 0
    width = len(BLOCKS) * DIM
    into_x = flowing[:, :width].reshape(count, len(BLOCKS), DIM)
    for number, (left, right) in enumerate(_PAIRS):
        product = flowing[:, width + number * DIM : width + (number + 1) * DIM]
        into_x[:, left] += product * x[:, right]
        into_x[:, right] += product * x[:, left]
    table = parameters["table"]
    places = (rows.index[chosen][:, :, None] * DIM + np.arange(DIM)).ravel()
    summed = np.bincount(places, weights=into_x[:, : len(SLOTS)].ravel(), minlength=table.size)
    found["table"] = summed.reshape(table.shape).astype(np.float32) + weight_decay * table
    found["table"][film_rows(vocab)] += history_weights.T @ into_x[:, BLOCKS.index("history")]
    found["genres"] = vocab.genres[rows.films[chosen]].T @ into_x[:, BLOCKS.index("genres")]
    found["genres"] += weight_decay * parameters["genres"]
    return found


class Adam:
    """Adam with its usual constants over a dictionary of arrays, which it changes in place."""

    def __init__(self, parameters, learning_rate):
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.steps = 0

    def step(self, found):
        """One update against the gradients."""
        self.steps += 1
        rate = self.learning_rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for name, value in self.parameters.items():
            self.mean[name] += 0.1 * (found[name] - self.mean[name])
            self.square[name] += 0.001 * (found[name] ** 2 - self.square[name])
            value -= np.float32(rate) * self.mean[name] / (np.sqrt(self.square[name]) + 1e-8)


def seen_films(vocab, rows):
    """Which films are mentioned by the rows, one truth a film."""
    return np.bincount(rows.films, minlength=len(vocab.values["film"])) > 0


def forget_unseen_films(parameters, vocab, rows):
    """Zeroes films that no row mentions, and no gradient moves them from there.

    The served table has no row for such a film, which reads as zeros: the trainer must agree.
    """
    parameters["table"][film_rows(vocab)][~seen_films(vocab, rows)] = 0


def train(vocab, rows, chosen, seed, after_epoch=lambda epoch, parameters: None):
    """Trains from scratch; calls `after_epoch(epoch, parameters)` with the live parameters after each epoch."""
    rng = np.random.default_rng(seed)
    parameters = initial(vocab, rng)
    forget_unseen_films(parameters, vocab, rows)
    adam = Adam(parameters, chosen.learning_rate)
    for epoch in range(1, chosen.epochs + 1):
        order = rng.permutation(len(rows.labels))
        for first in range(0, len(order), BATCH_ROWS):
            batch = order[first : first + BATCH_ROWS]
            adam.step(gradients(parameters, vocab, rows, batch, chosen.weight_decay))
        after_epoch(epoch, parameters)
    return parameters
