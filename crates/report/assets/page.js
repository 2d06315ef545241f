// Starts the charts, and keeps them right in another size, another scheme and on paper.

const failures = [];
window.addEventListener("error", (event) => failures.push(event.message));

document.documentElement.classList.add("scripted");
const sizes = new ResizeObserver(() => {
  for (const figure of charts) figure.built.forEach(resize);
});
// One figure that fails leaves the others, the tables and the contents as they are.
const drawFigures = () => {
  for (const figure of document.querySelectorAll("figure.card")) {
    try {
      drawFigure(figure);
    } catch (error) {
      failures.push(`${figure.id}: ${error.message}`);
    }
  }
};
drawFigures();

// Sections fold; a link opens the one it leads into.
const folds = [...document.querySelectorAll("details.section")];
for (const fold of folds) fold.addEventListener("toggle", drawFigures);
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && (target.querySelector(":scope > details.section") ?? target.closest("details.section"));
  if (!fold || fold.open) return;
  fold.open = true;
  drawFigures();
  target.scrollIntoView();
}
window.addEventListener("hashchange", openTarget);
openTarget();

// The contents show where the reader is.
const entries = [...document.querySelectorAll("nav > ul > li")].map((item) => [item, document.querySelector(item.firstChild.getAttribute("href"))]);
function follow() {
  const passed = entries.filter(([, section]) => section.getBoundingClientRect().top < 160);
  const [here] = passed[passed.length - 1] ?? entries[0] ?? [];
  for (const [item] of entries) {
    item.classList.toggle("here", item === here);
    item.firstChild.classList.toggle("here", item === here);
  }
}
window.addEventListener("scroll", follow, { passive: true });
follow();

// Tables are sorted by a click on a heading: up, down, as they came.
const UNIT_SIZES = { "/s": 1, "%": 0.01, cores: 1, ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1 };
// A number, or the quantity that words begin with; other words; null where nothing was measured.
function sortKey(row, column) {
  const cell = row.children[column];
  const text = cell.firstChild?.textContent.trim() ?? "";
  if (!cell.classList.contains("number")) {
    const found = /^([+\-−]?)(\d[\d,]*(?:\.\d+)?)(?:\s?(\/s|%|cores|ns|µs|ms|s)(?=\s|$|;)|(?=$| \(| ±))/.exec(text);
    if (!found) return text;
    const [, sign, digits, unit] = found;
    return (sign === "-" || sign === "−" ? -1 : 1) * Number(digits.replaceAll(",", "")) * (UNIT_SIZES[unit] ?? 1);
  }
  if (text === "≈ 0") return 0;
  const number = Number(text.replaceAll(",", ""));
  return cell.classList.contains("missing") || Number.isNaN(number) ? null : number;
}
// In a column of numbers words say that nothing was measured.
function sortKeys(rows, column) {
  const keys = rows.map((row) => sortKey(row, column));
  const hasNumbers = keys.some((key) => typeof key === "number");
  return hasNumbers ? keys.map((key) => (typeof key === "number" ? key : null)) : keys;
}
function compareKeys(one, other) {
  if (one === null || other === null) return (one === null) - (other === null); // what was not measured comes last
  return typeof one === "number" ? one - other : one.localeCompare(other, undefined, { numeric: true });
}
function sortBy(table, heading, column) {
  const order = { none: "ascending", ascending: "descending", descending: "none" }[heading.getAttribute("aria-sort") ?? "none"];
  table.querySelectorAll("th[aria-sort]").forEach((other) => {
    other.removeAttribute("aria-sort");
    other.querySelector(".sort").textContent = "↕";
  });
  if (order !== "none") heading.setAttribute("aria-sort", order);
  heading.querySelector(".sort").textContent = { none: "↕", ascending: "↑", descending: "↓" }[order];
  const sign = order === "descending" ? -1 : 1;
  const rows = [...table.rowsAsTheyCame];
  if (order !== "none") {
    const found = sortKeys(rows, column);
    const keys = new Map(rows.map((row, place) => [row, found[place]]));
    rows.sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      return a === null || b === null ? compareKeys(a, b) : sign * compareKeys(a, b);
    });
  }
  table.classList.toggle("sorted", order !== "none");
  table.tBodies[0].append(...rows);
}
for (const table of document.querySelectorAll("table:not(.verdicts)")) {
  table.rowsAsTheyCame = [...table.tBodies[0].rows];
  if (table.rowsAsTheyCame.length < 3) continue;
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = make(heading, "button", "sort", "↕");
    button.type = "button";
    button.setAttribute("aria-label", `sort by ${heading.textContent.replace("↕", "").trim()}`);
    heading.addEventListener("click", (event) => event.target.closest("a") || sortBy(table, heading, column));
  });
}

// Sliders over the first columns of a table show the row that they choose.
function chooseRows(place) {
  const card = place.closest(".card");
  const table = card.querySelector("table");
  const headings = [...table.tHead.rows[0].cells].map((cell) => cell.cloneNode(true));
  headings.forEach((heading) => heading.querySelector(".sort")?.remove());
  const chosen = Number(place.dataset.chosen);
  const texts = (row) => [...row.cells].slice(0, chosen).map((cell) => cell.textContent);
  const rows = new Map([...table.tBodies[0].rows].map((row) => [texts(row).join("|"), row]));
  const values = Array.from({ length: chosen }, (_, column) => [...new Set([...rows.values()].map((row) => texts(row)[column]))]);
  const sliders = values.map((levels, column) => {
    const label = make(place, "label", "slider");
    make(label, "span", "name", headings[column].textContent.trim());
    const slider = make(label, "input", "");
    Object.assign(slider, { type: "range", min: 0, max: levels.length - 1, step: 1 });
    const measured = levels.indexOf("100");
    slider.value = column === chosen - 1 && measured >= 0 ? measured : Math.floor(levels.length / 2);
    const output = make(label, "output", "");
    return { slider, output, levels };
  });
  const says = make(place, "dl", "says");
  const show = () => {
    const key = sliders.map(({ slider, output, levels }) => (output.textContent = levels[slider.value])).join("|");
    const row = rows.get(key);
    says.replaceChildren();
    [...row.cells].slice(chosen).forEach((cell, column) => {
      const heading = headings[chosen + column];
      const unit = heading.querySelector(".unit")?.textContent ?? "";
      const name = heading.textContent.replace(unit, "").trim();
      if (name === "remark" && !cell.textContent) return;
      const said = make(says, "div", name === "remark" ? "remark" : "");
      make(said, "dt", "", name);
      const value = make(said, "dd", "", cell.textContent || "–");
      if (unit && !cell.classList.contains("missing")) make(value, "span", "unit", ` ${unit}`);
    });
  };
  sliders.forEach(({ slider }) => slider.addEventListener("input", show));
  show();
}
document.querySelectorAll(".sliders").forEach(chooseRows);

function redraw() {
  colours = new Map();
  for (const figure of charts) for (const { u } of figure.built) u.redraw(false);
}

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
let folded = [];
function openAll() {
  const closed = folds.filter((fold) => !fold.open);
  for (const fold of closed) fold.open = true;
  drawFigures();
  return closed;
}
// Charts as wide as paper has room; a table that is wider becomes smaller.
function layOut(paper) {
  document.documentElement.classList.toggle("paper", paper);
  for (const figure of charts) figure.built.forEach(resize);
  for (const table of document.querySelectorAll(".scroll > table")) {
    table.style.zoom = "";
    const share = table.parentElement.clientWidth / table.parentElement.scrollWidth;
    if (paper && share < 1) table.style.zoom = String(share * 0.99);
  }
}
window.addEventListener("beforeprint", () => {
  document.documentElement.classList.add("paper"); // what unfolds is drawn in its size
  folded = openAll();
  layOut(true);
  before = document.documentElement.dataset.scheme;
  document.documentElement.dataset.scheme = "light";
  redraw();
});
window.addEventListener("afterprint", () => {
  for (const fold of folded) fold.open = false;
  layOut(false);
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
// Sorts each table by each column, up and down, and looks whether it is. Each heading keeps how its column was read upwards.
function checkSorting() {
  for (const table of document.querySelectorAll("table:has(.sort)")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      for (const order of ["ascending", "descending", null]) {
        heading.click();
        const rows = [...table.tBodies[0].rows];
        if (order === "ascending") heading.dataset.ascending = rows.map((row) => row.cells[column].textContent).join(" | ");
        const keys = sortKeys(rows, column).filter((key) => key !== null);
        const sign = order === "descending" ? -1 : 1;
        const wrong = order && keys.some((key, place) => place > 0 && sign * compareKeys(keys[place - 1], key) > 0);
        if (wrong || heading.getAttribute("aria-sort") !== order) failures.push(`not sorted by ${heading.textContent}`);
      }
      if ([...table.tBodies[0].rows].some((row, place) => row !== table.rowsAsTheyCame[place])) failures.push("the rows are not as they came");
    });
  }
}
// Laid out for paper no table may be wider than its frame, and no figure than the page.
function checkPaper() {
  for (const frame of document.querySelectorAll(".scroll, .chart")) {
    if (frame.scrollWidth > frame.clientWidth + 1) failures.push(`wider than paper: ${frame.closest("[id]")?.id}`);
  }
}
if (location.hash === "#self-check") {
  openAll();
  checkSorting();
  layOut(true);
  const painted = (next) => requestAnimationFrame(() => setTimeout(next));
  painted(() => {
    checkPaper();
    layOut(false);
    painted(checkCharts);
  });
}
// No two series of a panel may look alike, but for those beyond the last dashes and shapes.
function checkLooks(panel) {
  const looks = panel.series.map((series) => [series.tint, hasLine(panel, series) && dashOf(series), hasMarks(panel, series) && shapeOf(panel, series)].join(" "));
  const least = Math.min(looks.length, 8 * DASHES.length);
  if (new Set(looks).size < least) failures.push(`series look alike: ${panel.title}: ${looks.join(", ")}`);
}
// No two percentiles may have one name, and no bar may leave the points of a cut axis without room.
function checkReading({ u, panel }) {
  const names = panel.xs.map((_, place) => heading(panel, place));
  if (panel.x.tail && new Set(names).size < names.length) failures.push(`percentiles read alike: ${names.join(", ")}`);
  const most = over(panel, (series) => largest(series.values));
  if (panel.y.cut && u.scales.y.max > 3.2 * most) failures.push(`no room for the points: ${panel.title}`);
}
function checkCharts() {
  const hidden = document.querySelectorAll('[role="img"] :is(a, button, input)').length;
  if (hidden > 0) failures.push(`${hidden} switches inside pictures`);
  for (const figure of charts) {
    for (const built of figure.built) {
      checkLooks(built.panel);
      checkReading(built);
      built.frame.dataset.drawn = String(paintedSeries(built));
      built.frame.dataset.expected = String(built.panel.series.filter((series) => series.values.some((v) => v > 0 || (v === 0 && built.panel.empty && built.panel.mark === "points"))).length);
    }
  }
  const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  if (wide) failures.push("the page is wider than the window");
  document.documentElement.dataset.failures = failures.join("; ");
  document.documentElement.dataset.checked = "true";
}
