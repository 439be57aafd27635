"""The most frequent words of texts, as a function of Python that gets a list of requests. README.md beside it says how it is served."""

import collections

import millpond


@millpond.backend
def words(batch):
    """text: bytes[]; gives words: bytes[?] and counts: i64[?], as many as the text has different words, five at most."""
    results = []
    for request in batch:
        try:
            counted = collections.Counter(request["text"].decode().lower().split()).most_common(5)
        except UnicodeDecodeError as error:
            # It fails its own call; the others of the run get their words.
            results.append(error)
        else:
            results.append({"words": [word for word, _ in counted], "counts": [count for _, count in counted]})
    return results
