"""Cuts, histories and store keys on generated data: nothing later than the scored event is read. Plain Python 3.11."""

import random
import tempfile
import unittest
from pathlib import Path

import events as subject
import generated
from events import HISTORY_MAX, cut, history_range, number_events, request, store_entries, store_key


def timed(*timestamps):
    """Events of user 7 at the given times; film ids are their numbers."""
    return number_events("7", [(time, line, str(line), 3.0) for line, time in enumerate(timestamps)])


class Cut(unittest.TestCase):
    def check(self, timestamps, expected_before):
        before, held_out = cut(timed(*timestamps))
        self.assertEqual((len(before), len(held_out)), (expected_before, len(timestamps) - expected_before))

    def test_newest_fifth(self):
        self.check(range(10), 8)
        self.check(range(14), 12)
        self.check(range(5), 4)

    def test_a_shared_second_is_held_out_whole(self):
        self.check([1, 2, 3, 4, 5, 6, 7, 7, 7, 8], 6)

    def test_too_few_or_undividable_events_all_train(self):
        self.check(range(4), 4)
        self.check([5] * 10, 10)
        self.check([], 0)

    def test_all_before_is_older_than_all_held_out(self):
        held_out_total = 0
        for seed in range(20):
            for user, ordered in generated.events(seed).items():
                before, held_out = cut(ordered)
                held_out_total += len(held_out)
                self.assertEqual(before + held_out, ordered, f"seed {seed}, user {user}")
                self.assertGreaterEqual(len(held_out), int(len(ordered) * 0.2) if before != ordered else 0)
                if held_out:
                    self.assertLess(max(event.timestamp for event in before), held_out[0].timestamp)
        self.assertGreater(held_out_total, 0)


class History(unittest.TestCase):
    def check(self, timestamps, scored_at, expected, limit=HISTORY_MAX):
        self.assertEqual(history_range(timed(*timestamps), scored_at, limit), expected)

    def test_strictly_older_and_newest(self):
        self.check([1, 2, 3, 4], 3, (0, 2))
        self.check([1, 2, 3, 4], 1, (0, 0))
        self.check([1, 2, 3, 4], 9, (0, 4))
        self.check([1, 2, 3, 4], 9, (2, 4), limit=2)

    def test_the_same_second_is_not_read(self):
        self.check([1, 2, 2, 2, 3], 2, (0, 1))
        self.check([2, 2, 2], 2, (0, 0))

    def test_no_event_sees_itself_or_anything_later(self):
        for seed in range(20):
            for user, ordered in generated.events(seed).items():
                for event in ordered:
                    first, end = history_range(ordered, event.timestamp)
                    read = ordered[first:end]
                    older = [other for other in ordered if other.timestamp < event.timestamp]
                    self.assertEqual(read, older[-HISTORY_MAX:], f"seed {seed}, user {user}, event {event.sequence}")

    def test_rewriting_the_future_changes_no_history(self):
        draw = random.Random(5)
        for seed in range(10):
            for ordered in generated.events(seed).values():
                event = draw.choice(ordered)
                rewritten = [
                    other if other.timestamp < event.timestamp
                    else subject.Event(other.user, "never", 6.0 - other.rating, other.timestamp, other.sequence)
                    for other in ordered
                ]
                first, end = history_range(ordered, event.timestamp)
                again = history_range(rewritten, event.timestamp)
                self.assertEqual(ordered[first:end], rewritten[slice(*again)])


class Served(unittest.TestCase):
    def test_forward_scan_gives_newest_first(self):
        for seed in range(5):
            for user, ordered in generated.events(seed).items():
                by_key = sorted(ordered, key=lambda event: store_key(event).encode())
                self.assertEqual(by_key, ordered[::-1])
                self.assertTrue(all(store_key(event).startswith(f"u/{user}/") for event in ordered))
                self.assertEqual({len(store_key(event)) for event in ordered}, {len(f"u/{user}/") + 16})

    def test_the_store_sees_nothing_from_the_cut_on_and_what_an_event_at_the_cut_may_see(self):
        parts = {user: cut(ordered) for user, ordered in generated.events(3).items()}
        entries = list(store_entries({user: before for user, (before, _) in parts.items()}))
        self.assertEqual(len(entries), sum(len(before) for before, _ in parts.values()))
        for user, (before, held_out) in parts.items():
            scanned = [entry["value"] for entry in sorted(entries, key=lambda one: one["key"])
                       if entry["key"].startswith(f"u/{user}/")]
            self.assertFalse({event.film for event in held_out} & set(scanned))
            if held_out:
                first, end = history_range(before, held_out[0].timestamp)
                self.assertEqual(scanned[:HISTORY_MAX], [event.film for event in before[first:end]][::-1])

    def test_request(self):
        user = generated.users(1)["1"]
        asked = request(user, number_events("1", [(5, 0, "12", 4.0), (6, 1, "9", 3.0)]))
        self.assertEqual(asked["user"], {"id": "1", "age": user.age, "gender": user.gender, "occupation": user.occupation})
        self.assertEqual((asked["items"], asked["labels"], asked["ratings"]), (["12", "9"], [1, 0], [4.0, 3.0]))


class Reading(unittest.TestCase):
    def read(self, reader, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table"
            path.write_text(text, encoding="utf-8")
            return reader(path)

    def test_the_three_files(self):
        read = self.read(subject.read_events, "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
                         "2\t9\t4\t20\n2\t8\t3\t10\n1\t9\t5\t7\n2\t7\t5\t10\n")
        self.assertEqual([(event.film, event.liked, event.sequence) for event in read["2"]],
                         [("8", False, 0), ("7", True, 1), ("9", True, 2)])
        users = self.read(subject.read_users, "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
                          "1\t24\tM\ttechnician\t85711\n")
        self.assertEqual(users["1"], subject.User("1", "18-24", "M", "technician"))
        films = self.read(subject.read_films, "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
                          "1\tÜber\t1995\tAnimation Comedy\n2\tunknown\t\t\n")
        self.assertEqual(films["1"], subject.Film("1", "Über (1995)", ("Animation", "Comedy")))
        self.assertEqual(films["2"], subject.Film("2", "unknown", ()))

    def test_another_header_or_a_short_row_is_refused(self):
        header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
        with self.assertRaisesRegex(ValueError, "header"):
            self.read(subject.read_events, "user\titem\n")
        with self.assertRaisesRegex(ValueError, "table:3: 2 columns, expected 4"):
            self.read(subject.read_events, header + "1\t2\t3\t4\n1\t2\n")

    def test_age_buckets(self):
        ages = {1: "under 18", 17: "under 18", 18: "18-24", 34: "25-34", 35: "35-44", 49: "45-49", 55: "50-55", 56: "56+"}
        for age, expected in ages.items():
            self.assertEqual(subject.age_bucket(str(age)), expected)


if __name__ == "__main__":
    unittest.main()
