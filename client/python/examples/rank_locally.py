"""Ranks films for users of the demo in this process, without a server, and compares all scores with those computed offline.

    make demo && make python
    PYTHONPATH=client/python .demo/venv/bin/python client/python/examples/rank_locally.py [FOLDER]

FOLDER is what `make demo` filled, .demo/movielens when left out; stop the demo's server first, which has the store open. The exit
status is 0 only where every score equals the offline one to 1e-4.
"""

import json
import sys
from pathlib import Path

import millpond

SCORE_DIFFERENCE_MAX = 1e-4
SHOWN_USERS = 3
SHOWN_FILMS = 5


def read_lines(path):
    """The objects of a file of JSON lines."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def inputs_of(request):
    """The pipeline's inputs (examples/movielens/local.toml) of a request for the server's `rank`."""
    user = request["user"]
    fields = {field: user[field] for field in ("age", "gender", "occupation")}
    return {"user": user["id"], **fields, "films": request["items"]}


def rank(pipe, request, top):
    """[(film, score), ...] of the `top` best, best first; equal scores keep the request's order, as on a server."""
    scores = pipe(inputs_of(request))["scores"]
    return sorted(zip(request["items"], scores.tolist(), strict=True), key=lambda one: -one[1])[:top]


def show_users(pipe, requests, titles):
    """Prints the top films of three users, the demo's, with the ratings that they gave later."""
    requests = [request for request in requests if len(request["items"]) >= 2 * SHOWN_FILMS]
    for number in range(1, SHOWN_USERS + 1):
        request = requests[number * len(requests) // (SHOWN_USERS + 1)]
        user, ratings = request["user"], dict(zip(request["items"], request["ratings"], strict=True))
        print(f"user {user['id']} ({user['gender']}, {user['age']}, {user['occupation']}): best of {len(ratings)} held-out films")
        for film, score in rank(pipe, request, SHOWN_FILMS):
            print(f"  {score:.4f}  {titles[film]:<60.60}  {'*' * int(ratings[film])}")


def largest_difference(pipe, requests, offline):
    """Of all scores from those computed offline; the requests run together, and share the model's batches."""
    answers = pipe([inputs_of(request) for request in requests])
    return max(
        abs(score - expected)
        for answer, by_request in zip(answers, offline, strict=True)
        for score, expected in zip(answer["scores"].tolist(), by_request["scores"], strict=True)
    )


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".demo/movielens")
    if not (folder / "local.toml").is_file():
        sys.exit(f"rank_locally.py: {folder} has no local.toml; run `make demo`, or name the folder that it filled")
    requests, offline = read_lines(folder / "heldout.jsonl"), read_lines(folder / "offline_scores.jsonl")
    titles = json.loads((folder / "titles.json").read_text(encoding="utf-8"))
    with millpond.Pipeline(folder / "local.toml") as pipe:
        show_users(pipe, requests, titles)
        found = largest_difference(pipe, requests, offline)
    films = sum(len(request["items"]) for request in requests)
    print(f"ranked {films} films of {len(requests)} users; largest difference from an offline score: {found:.1e}")
    # A NaN is no equal score either.
    sys.exit(0 if found <= SCORE_DIFFERENCE_MAX else f"rank_locally.py: scores may differ by {SCORE_DIFFERENCE_MAX}, not by {found:.1e}")


if __name__ == "__main__":
    main()
