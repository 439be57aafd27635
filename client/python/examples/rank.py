"""Ranks films for users of the demo, once waiting and a hundred times at once.

    make demo STAY=1                                          # leaves its server on 127.0.0.1:13500
    PYTHONPATH=client/python python3 client/python/examples/rank.py [HOST:PORT]
"""

import asyncio
import sys

import millpond

ITEMS = ["50", "181", "258", "100", "286"]
DEADLINE_MS = 5000


def show(user, answer):
    """Prints the films of one answer, best first."""
    print(f"user {user}: {len(answer['items'])} films by {answer['model']}")
    for item, score in zip(answer["items"], answer["scores"], strict=True):
        print(f"  {score:.4f}  film {item}")


def rank_one(address):
    """Waits for one answer."""
    with millpond.Client(address) as client:
        payload = {"user": {"id": "246", "age": "18-24", "gender": "M", "occupation": "student"}, "items": ITEMS, "top": 5}
        show("246", client.call("rank", payload, deadline_ms=DEADLINE_MS))


async def rank_many(address, users):
    """Has the films of all users ranked at once, over two connections; what is refused is counted, not repeated."""
    async with millpond.AsyncClient(address, connections=2) as client:
        calls = (
            client.call(
                "rank",
                {"user": {"id": user, "age": "25-34", "gender": "F", "occupation": "other"}, "items": ITEMS},
                DEADLINE_MS,
            )
            for user in users
        )
        answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, millpond.StatusError) and answer.retryable]
    failed = [answer for answer in answers if isinstance(answer, BaseException) and answer not in refused]
    if failed:
        raise failed[0]
    print(f"ranked for {len(answers) - len(refused)} users at once, {len(refused)} refused")


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:13500"
    rank_one(address)
    asyncio.run(rank_many(address, [str(user) for user in range(1, 101)]))


if __name__ == "__main__":
    main()
