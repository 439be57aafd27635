"""AUC and log loss of scored events. Standard library only, so that whoever asks the server can measure it."""

import math


def auc(labels, scores):
    """The chance that a random positive outscores a random negative; a tie counts one half.

    Computed from mid-ranks, so equal scores neither help nor hurt whatever order they came in.
    """
    order = sorted(range(len(scores)), key=scores.__getitem__)
    positives = sum(1 for label in labels if label)
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        raise ValueError(f"AUC needs both classes, got {positives} positive and {negatives} negative")
    rank_sum = 0.0
    first = 0
    while first < len(order):
        last = first
        while last < len(order) and scores[order[last]] == scores[order[first]]:
            last += 1
        mid_rank = (first + 1 + last) / 2
        rank_sum += mid_rank * sum(1 for i in order[first:last] if labels[i])
        first = last
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def log_loss(labels, scores):
    """Mean of -log of the probability given to what happened; clipped at 1e-7 so that one miss stays finite."""
    total = 0.0
    for label, score in zip(labels, scores, strict=True):
        right = score if label else 1.0 - score
        total -= math.log(max(right, 1e-7))
    return total / len(labels)
