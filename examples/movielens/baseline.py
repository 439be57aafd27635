"""What the ranker has to beat: every film scored by its mean over the training events, whoever asks.

To be hard on the ranker, the mean is taken in two ways (share of likes, mean rating) and pulled towards the overall
mean with several strengths, and the one that does best ON THE HELD-OUT EVENTS is the baseline: no honest choice made
in advance could be better. Standard library only.
"""

from metrics import auc

PRIORS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
MEANS = {"share of likes": lambda event: float(event.liked), "mean rating": lambda event: event.rating}


def item_means(training, measure, prior):
    """({film: mean pulled towards the overall mean as if by `prior` more events}, the overall mean)."""
    sums, counts = {}, {}
    for event in training:
        sums[event.film] = sums.get(event.film, 0.0) + measure(event)
        counts[event.film] = counts.get(event.film, 0) + 1
    overall = sum(sums.values()) / len(training)
    return {film: (sums[film] + prior * overall) / (counts[film] + prior) for film in sums}, overall


def strongest(training, held_out):
    """The best item-mean AUC on the held-out events: {"auc", "mean", "prior", "all"}."""
    labels = [event.liked for event in held_out]
    tried = []
    for name, measure in MEANS.items():
        for prior in PRIORS:
            means, overall = item_means(training, measure, prior)
            value = auc(labels, [means.get(event.film, overall) for event in held_out])
            tried.append({"auc": value, "mean": name, "prior": prior})
    return {**max(tried, key=lambda one: one["auc"]), "all": tried}
