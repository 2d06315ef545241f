"""Intervals of 95 % for the means of rounds and for their ratios."""

import math
import statistics

# Student's t for a two-sided 95 % interval, by degrees of freedom.
T = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 11: 2.201, 14: 2.145, 15: 2.131, 19: 2.093}


def mean_and_half(numbers):
    """Their mean, and half of its 95 % interval."""
    freedom = len(numbers) - 1
    if freedom < 1:
        return statistics.fmean(numbers), float("nan")
    t = T.get(freedom) or next(value for known, value in sorted(T.items(), reverse=True) if known <= freedom)
    return statistics.fmean(numbers), t * statistics.stdev(numbers) / math.sqrt(len(numbers))


def interval(before, after):
    """The ratio after / before, and its interval."""
    middle, half = mean_and_half([math.log(a / b) for b, a in zip(before, after)])
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)
