"""Rated events as arrays of row numbers, the form that the ranker trains on.

Nothing is learned here and nothing is hashed: a row number is a place in the ranker's table. The one invariant:
the history of every row comes from `events.history_range`, so no row sees its own second or anything later.
"""

from dataclasses import dataclass

import numpy as np

from events import HISTORY_MAX, history_range
from keys import SLOTS


@dataclass(frozen=True)
class Vocabulary:
    """Which values exist. `values[slot]` lists them; `offsets[slot]` is where the slot's rows start."""

    users: dict
    values: dict
    places: dict
    offsets: dict
    genres: np.ndarray  # [films, genre names]: each film's share of every genre, rows summing to one (or zero)

    @property
    def size(self):
        """Rows of the whole table."""
        return sum(len(values) for values in self.values.values())


@dataclass(frozen=True)
class Rows:
    """Events to train on or to score. A history shorter than HISTORY_MAX is padded with the number of films."""

    index: np.ndarray  # [n, SLOTS]: rows of the table
    films: np.ndarray  # [n]: place of the film among the films
    history: np.ndarray  # [n, HISTORY_MAX]: places of films
    labels: np.ndarray  # [n]: 1.0 where the user liked the film


def vocabulary(users, films):
    """Numbers every user, profile value and film, in a fixed order."""
    values = {
        "user": sorted(users, key=int),
        "age": sorted({user.age for user in users.values()}),
        "gender": sorted({user.gender for user in users.values()}),
        "occupation": sorted({user.occupation for user in users.values()}),
        "film": sorted(films, key=int),
    }
    places = {slot: {value: place for place, value in enumerate(listed)} for slot, listed in values.items()}
    offsets, start = {}, 0
    for slot in SLOTS:
        offsets[slot] = start
        start += len(values[slot])
    names = sorted({genre for film in films.values() for genre in film.genres})
    column = {name: place for place, name in enumerate(names)}
    genres = np.zeros((len(films), len(names)), np.float32)
    for place, film in enumerate(values["film"]):
        for genre in films[film].genres:
            genres[place, column[genre]] += 1 / len(films[film].genres)
    return Vocabulary(users, values, places, offsets, genres)


def rows(vocab, scored, visible):
    """Rows for `scored` events, {user: [Event]}, whose histories are taken from `visible`, {user: [ordered Event]}."""
    total = sum(len(events) for events in scored.values())
    films_known = len(vocab.values["film"])
    index = np.empty((total, len(SLOTS)), np.int64)
    films = np.empty(total, np.int64)
    history = np.full((total, HISTORY_MAX), films_known, np.int64)
    labels = np.empty(total, np.float32)
    place = vocab.places
    at = 0
    for user, events in scored.items():
        seen = np.array([place["film"][event.film] for event in visible[user]], np.int64)
        profile = vocab.users[user]
        fixed = [
            vocab.offsets[slot] + place[slot][value]
            for slot, value in zip(SLOTS, (user, profile.age, profile.gender, profile.occupation))
        ]
        for event in events:
            first, end = history_range(visible[user], event.timestamp)
            films[at] = place["film"][event.film]
            index[at] = (*fixed, vocab.offsets["film"] + films[at])
            history[at, : end - first] = seen[first:end]
            labels[at] = event.liked
            at += 1
    return Rows(index, films, history, labels)
