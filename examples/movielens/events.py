"""Who rated what and when: reading MovieLens, each user's cut, the history an event may see, the store's keys.

No numpy and no model in here. The one invariant: what an event is scored with happened strictly before it.
Events of one user are ordered by timestamp, then by their line in the file. MovieLens records bursts, so many
events share a second; of those nobody knows the order, and so:

* an event's history is made of events with a strictly smaller timestamp: its own second is never read;
* a user's cut never divides a second: the newest 20 % are held out together with whatever shares the oldest
  held-out timestamp (about 21 % in all), so every training event is strictly older than every held-out one.
"""

from bisect import bisect_left
from dataclasses import dataclass

HELD_OUT_SHARE = 0.2
HISTORY_MAX = 50
LIKED_FROM = 4.0

# Widths of the two numbers in an event's key: seconds since 1970 fit ten digits, a user's events six.
TIME_DIGITS = 10
SEQUENCE_DIGITS = 6


@dataclass(frozen=True)
class Event:
    """One rating. `sequence` is its place among its user's events, oldest first."""

    user: str
    film: str
    rating: float
    timestamp: int
    sequence: int

    @property
    def liked(self):
        """The label that the ranker learns."""
        return self.rating >= LIKED_FROM


@dataclass(frozen=True)
class User:
    """What is known of a user beside events; the age as the bucket that is hashed."""

    id: str
    age: str
    gender: str
    occupation: str


@dataclass(frozen=True)
class Film:
    """A film's title with its year, and its genres (some films have none)."""

    id: str
    title: str
    genres: tuple


def age_bucket(years):
    """The age group of MovieLens' own later releases, as text."""
    years = int(years)
    for upper, name in ((18, "under 18"), (25, "18-24"), (35, "25-34"), (45, "35-44"), (50, "45-49"), (56, "50-55")):
        if years < upper:
            return name
    return "56+"


def _rows(path, expected_header):
    """The tab-separated rows below a header that must be the expected one."""
    with open(path, encoding="utf-8") as lines:
        header = next(lines).rstrip("\n").split("\t")
        if header != expected_header:
            raise ValueError(f"{path}: header is {header}, expected {expected_header}; delete the file and fetch again")
        for number, line in enumerate(lines, start=2):
            row = line.rstrip("\n").split("\t")
            if len(row) != len(expected_header):
                raise ValueError(f"{path}:{number}: {len(row)} columns, expected {len(expected_header)}")
            yield row


def read_events(path):
    """Every user's events, oldest first: {user id: [Event]}."""
    header = ["user_id:token", "item_id:token", "rating:float", "timestamp:float"]
    unordered = {}
    for line, (user, film, rating, timestamp) in enumerate(_rows(path, header)):
        unordered.setdefault(user, []).append((int(float(timestamp)), line, film, float(rating)))
    return {user: number_events(user, rows) for user, rows in unordered.items()}


def number_events(user, rows):
    """Events of one user in order, from (timestamp, tie-breaker, film, rating) rows in any order."""
    return [
        Event(user, film, rating, timestamp, sequence)
        for sequence, (timestamp, _, film, rating) in enumerate(sorted(rows))
    ]


def read_users(path):
    """{user id: User}."""
    header = ["user_id:token", "age:token", "gender:token", "occupation:token", "zip_code:token"]
    return {
        user: User(user, age_bucket(age), gender, occupation)
        for user, age, gender, occupation, _ in _rows(path, header)
    }


def read_films(path):
    """{film id: Film}."""
    header = ["item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq"]
    return {
        film: Film(film, f"{title} ({year})" if year else title, tuple(genres.split()))
        for film, title, year, genres in _rows(path, header)
    }


def cut(events, share=HELD_OUT_SHARE):
    """Splits one user's ordered events into (before the cut, held out).

    The newest `share` is held out, with every event of the oldest held-out second. A user whose events all
    lie in one second cannot be divided and is not held out at all.
    """
    first = len(events) - int(len(events) * share)
    while 0 < first < len(events) and events[first - 1].timestamp == events[first].timestamp:
        first -= 1
    return (events, []) if first == 0 else (events[:first], events[first:])


def history_range(ordered, timestamp, limit=HISTORY_MAX):
    """Where the history of something scored at `timestamp` lies in a user's ordered events: (first, end).

    It is the newest `limit` of the events that are strictly older.
    """
    end = bisect_left(ordered, timestamp, key=lambda event: event.timestamp)
    return max(0, end - limit), end


def store_key(event):
    """The event's key in the ordered store: a forward scan of `u/<user>/` gives the newest first."""
    time = 10**TIME_DIGITS - 1 - event.timestamp
    sequence = 10**SEQUENCE_DIGITS - 1 - event.sequence
    return f"u/{event.user}/{time:0{TIME_DIGITS}d}{sequence:0{SEQUENCE_DIGITS}d}"


def store_entries(training):
    """What is loaded into the ordered store, from {user: [Event before the cut]}: the value is the film's id."""
    for user in sorted(training, key=int):
        for event in training[user]:
            yield {"key": store_key(event), "value": event.film}


def request(user, held_out):
    """What is asked of the server for one user, with the labels and ratings that only the judge may read."""
    return {
        "user": {"id": user.id, "age": user.age, "gender": user.gender, "occupation": user.occupation},
        "items": [event.film for event in held_out],
        "labels": [int(event.liked) for event in held_out],
        "ratings": [event.rating for event in held_out],
    }
