"""Users, films and events for the tests, from a seed: the shape of MovieLens, none of its data."""

import random

from events import Film, User, number_events

GENRES = ("Action", "Comedy", "Drama", "Sci-Fi")


def users(count):
    """{user id: User}."""
    ages, genders, occupations = ("18-24", "25-34"), ("F", "M"), ("artist", "miner", "writer")
    return {
        str(number): User(str(number), ages[number % 2], genders[number // 2 % 2], occupations[number % 3])
        for number in range(1, count + 1)
    }


def films(count):
    """{film id: Film}; every seventh has no genre."""
    return {
        str(number): Film(str(number), f"Film {number} (1999)", GENRES[: number % 4] if number % 7 else ())
        for number in range(1, count + 1)
    }


def events(seed, user_count=30, film_count=90):
    """{user: [ordered Event]}: every film at most once a user, in bursts that share a second.

    Even films please users with even numbers, so there is something to learn.
    """
    draw = random.Random(seed)
    made = {}
    for number in range(1, user_count + 1):
        time, rows = 900_000_000 + draw.randint(0, 1000), []
        for line, film in enumerate(draw.sample(range(1, film_count + 1), draw.randint(8, film_count))):
            time += draw.choice((0, 0, 1, 50))
            pleased = draw.random() < (0.8 if (film - number) % 2 == 0 else 0.3)
            rows.append((time, line, str(film), 4.0 + draw.randint(0, 1) if pleased else float(draw.randint(1, 3))))
        made[str(number)] = number_events(str(number), rows)
    return made
