// Starts the charts, and keeps them right in another size, another scheme and on paper.

const failures = [];
window.addEventListener("error", (event) => failures.push(event.message));

document.documentElement.classList.add("scripted");
for (const element of document.querySelectorAll("figure.card")) drawFigure(element);

function redraw() {
  colours = new Map();
  for (const figure of charts) for (const { u } of figure.built) u.redraw(false);
}

const sizes = new ResizeObserver(() => {
  for (const figure of charts) figure.built.forEach(resize);
});
for (const figure of charts) sizes.observe(figure.element);

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const scheme = document.getElementById("scheme");
const isDark = () => (document.documentElement.dataset.scheme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
function nameScheme() {
  scheme.textContent = isDark() ? "Light" : "Dark";
  redraw();
}
scheme.hidden = false;
scheme.addEventListener("click", () => {
  document.documentElement.dataset.scheme = isDark() ? "light" : "dark";
  nameScheme();
});
prefersDark.addEventListener("change", nameScheme);
nameScheme();

// Paper is light.
let before;
window.addEventListener("beforeprint", () => {
  before = document.documentElement.dataset.scheme;
  document.documentElement.dataset.scheme = "light";
  redraw();
});
window.addEventListener("afterprint", () => {
  if (before) document.documentElement.dataset.scheme = before;
  else delete document.documentElement.dataset.scheme;
  redraw();
});

// With #self-check in its address the page examines itself: for each panel, how many of the series that have something to
// show did leave their colour on the canvas, and which errors the scripts met.
function paintedSeries({ u, panel }) {
  const { left, top, width, height } = u.bbox;
  const pixels = u.ctx.getImageData(left, top, width, height).data;
  const present = new Set();
  for (let at = 0; at < pixels.length; at += 4) present.add((pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2]);
  return panel.series.filter((series) => {
    const [red, green, blue] = colour(series.tint).match(/\d+/g).map(Number);
    return present.has((red << 16) | (green << 8) | blue);
  }).length;
}
if (location.hash === "#self-check") {
  requestAnimationFrame(() => setTimeout(() => {
    for (const figure of charts) {
      for (const built of figure.built) {
        built.frame.dataset.drawn = String(paintedSeries(built));
        built.frame.dataset.expected = String(built.panel.series.filter((series) => series.values.some((v) => v > 0)).length);
      }
    }
    const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
    if (wide) failures.push("the page is wider than the window");
    document.documentElement.dataset.failures = failures.join("; ");
    document.documentElement.dataset.checked = "true";
  }));
}
