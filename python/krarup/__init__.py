"""krarup from Python: run experiments, read what they recorded as tables, ask models.

The program itself is in the same package: `krarup demo` on a command line, :func:`krarup.call` here.
"""

from krarup.experiments import Experiment, cells, results, rows, run, trials
from krarup.models import Model, calibrate, model
from krarup.program import KrarupError, call, program

__all__ = ["Experiment", "KrarupError", "Model", "calibrate", "call", "cells", "model", "program", "results", "rows", "run", "trials"]
