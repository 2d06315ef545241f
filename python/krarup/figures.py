"""Figures in notebooks: the report's own, in a frame of their own, and matplotlib's."""

import html
import re

from krarup.program import KrarupError
from krarup.tables import needed

FIGURE = re.compile(r'<figure class="card" id="figure-([^"]+)">.*?</figure>', re.DOTALL)


class Page:
    """A page that a notebook shows in a frame: its style and script stay inside.

    It may run its scripts, which draw, and offer its tables for download, and no more: with the origin of the notebook a page of others could use its kernel.
    """

    def __init__(self, text, height):
        self.text, self.height = text, height

    def _repr_html_(self):
        return f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(self.text)}" width="100%" height="{self.height}" style="border:0"></iframe>'


def figure_names(page):
    """The names of the figures of a report."""
    return FIGURE.findall(page)


def only_figure(page, name):
    """A report's page with one of its figures and nothing else."""
    figures = {found.group(1): found.group(0) for found in FIGURE.finditer(page)}
    if name not in figures:
        raise KrarupError(f"there is no figure {name!r}", f"one of {', '.join(figures)}")
    # What is left out is left out of the page, not hidden: a notebook keeps every byte.
    head, rest = page.split("<main>", 1)
    _, tail = rest.split("</main>", 1)
    # Contents lead to what is left out.
    head = re.sub(r"<nav .*?</nav>\n", "", head, flags=re.DOTALL)
    head = re.sub(r'<h1>.*?</h1>\n<p class="subtitle">.*?</p>', "", head, flags=re.DOTALL)
    return Page(f"{head}<main>{figures[name]}</main>{tail}", height=620)


def plot(table, name, axes=None):
    """Draws the data of a figure: the second column is x, a line for each value of the first, a panel for each quantity that has an interval."""
    pyplot = needed("matplotlib") and __import__("matplotlib.pyplot").pyplot
    columns = table.column_names
    quantities = [c for c in columns[2:] if f"{c}_low" in columns]
    if not quantities:
        quantities = [c for c in columns[2:] if not c.endswith(("_low", "_high", "_n"))]
    if axes is None:
        _, axes = pyplot.subplots(1, len(quantities), figsize=(5.5 * len(quantities), 4), layout="constrained", squeeze=False)
        axes = list(axes[0])
    elif hasattr(axes, "flat"):  # as pyplot.subplots gives several
        axes = list(axes.flat)
    axes = list(axes) if isinstance(axes, (list, tuple)) else [axes]
    if len(axes) < len(quantities):
        raise KrarupError(f"{name} has {len(quantities)} quantities, and there are {len(axes)} axes", f"pyplot.subplots(1, {len(quantities)}) makes as many")
    records = table.to_pylist()
    for panel, quantity in zip(axes, quantities):
        for series in dict.fromkeys(record[columns[0]] for record in records):
            points = [r for r in records if r[columns[0]] == series and r[quantity] is not None]
            bars = [[(r[quantity] - r.get(f"{quantity}_low")) if r.get(f"{quantity}_low") is not None else 0 for r in points]]
            bars += [[(r.get(f"{quantity}_high") - r[quantity]) if r.get(f"{quantity}_high") is not None else 0 for r in points]]
            panel.errorbar([r[columns[1]] for r in points], [r[quantity] for r in points], yerr=bars, marker="o", capsize=3, label=str(series))
        panel.set(xlabel=columns[1], ylabel=quantity, ylim=(0, None))
        panel.legend()
    axes[0].figure.suptitle(name.replace("-", " "))
    return axes
