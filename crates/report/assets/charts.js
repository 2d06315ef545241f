// One uPlot chart for each panel of each figure: axes, zoom, readout, and the switches of its series.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const charts = [];

// Colours live in the style sheet alone; they are read through a probe, because they depend on the scheme.
const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;
let colours = new Map();
function colour(tint) {
  if (!colours.has(tint)) {
    probe.style.color = `var(--${tint})`;
    colours.set(tint, getComputedStyle(probe).color);
  }
  return colours.get(tint);
}

function make(parent, tag, className, text) {
  const element = parent.appendChild(document.createElement(tag));
  if (className) element.className = className;
  if (text != null) element.textContent = text;
  return element;
}

// The colour of a series, with the dashes of its line or the shape of its marks.
function swatch(parent, panel, series) {
  const [ink, dash] = [`var(--${series.tint})`, hasLine(panel, series) ? dashOf(series) : []];
  const shape = panel.mark === "points" ? shapeOf(panel, series) : "";
  const element = make(parent, "i", dash.length > 0 ? "dashed" : shape);
  let end = 0;
  const parts = dash.map((length, place) => `${place % 2 === 0 ? ink : "transparent"} ${end}px ${(end += length)}px`);
  element.style.background = dash.length > 0 ? `repeating-linear-gradient(90deg, ${parts.join(", ")})` : ink;
  return element;
}

// The largest of many, or the smallest: a call with each of them as an argument has a limit.
const largest = (values) => values.reduce((most, value) => Math.max(most, value ?? 0), 0);
const smallest = (values) => values.reduce((least, value) => Math.min(least, value ?? 0), 0);
const over = (panel, of) => largest(panel.series.map(of));

const textWidth = (() => {
  const ctx = document.createElement("canvas").getContext("2d");
  return (text, weight) => {
    ctx.font = `${weight} 12px ${FONT}`;
    return ctx.measureText(text).width;
  };
})();

// Beside a diagonal what matters is how near to it the points are: a bar that is longer than all of them is cut off at the edge, as along an axis that says so.
function inSight(panel, high) {
  if (high == null || !(panel.diagonal || panel.y.cut)) return high;
  const most = over(panel, (s) => largest(s.values));
  return Math.min(high, panel.y.cut ? 3 * most : 1.4 * Math.max(largest(panel.xs), most));
}

// The largest value between two places, intervals included; of stacks, the largest sum of the parts that are shown.
function highest(u, panel, first, last) {
  if (panel.shares) return 1 / 1.06;
  let most = 0;
  const shownSeries = visible(u, panel);
  for (let place = first; place <= last; place += 1) {
    let sum = 0;
    for (const { series } of shownSeries) {
      const value = series.values[place] ?? 0;
      sum = panel.mark === "bars" ? sum + value : Math.max(value, inSight(panel, series.high?.[place] ?? 0));
      most = Math.max(most, sum);
    }
  }
  return most;
}

// The levels of a factor are the marks of its axis; where their texts have no room beside each other, every second, third, … of them.
function levelMarks(u, levels, text) {
  const widest = Math.max(...levels.map((level) => textWidth(text(level), 400)));
  const room = Math.max(2, Math.floor(u.bbox.width / DOTS() / Math.max(34, widest + 14)));
  const inside = levels.filter((level) => level >= u.scales.x.min && level <= u.scales.x.max);
  const step = Math.ceil(inside.length / room);
  return inside.filter((_, place) => (inside.length - 1 - place) % step === 0);
}

function xRange(panel) {
  const [first, last] = [panel.xs[0] ?? 0, panel.xs[panel.xs.length - 1] ?? 1];
  if (panel.x.names) return [-0.55, panel.xs.length - 0.45];
  if (panel.heat) return [first, last + panel.heat.length];
  if (panel.x.tail) return [first, last * 1.05];
  if (panel.bucket) return [first, last + panel.bucket];
  if (panel.x.log) return [first / 1.12, last * 1.12];
  if (panel.mark === "points") return [Math.min(0, first * 1.05), Math.max(0, (panel.diagonal ? Math.max(last, topOf(panel)) : last) * 1.05)];
  if (panel.x.levels || panel.series.some((series) => series.mark)) return [Math.min(0, first * 1.03), Math.max(0, last * 1.03)];
  return first === last ? [first - 0.5, last + 0.5] : [first, last];
}

function topOf(panel) {
  // What is cut off at the edge is so at one place: it need not be looked for at each value.
  const top = over(panel, (s) => largest(s.high ?? []));
  return Math.max(over(panel, (s) => largest(s.values)), inSight(panel, top));
}

// Everything starts from zero but points that lie below it: residuals.
function bottomOf(panel) {
  if (panel.mark !== "points") return 0;
  return smallest(panel.series.map((s) => Math.min(smallest(s.values), smallest(s.low ?? [])))) * 1.06;
}

const TILT = 40; // degrees

// Names of an axis stand beside each other, or else tilted; where there is no room for all of them even so, every second, third, … of them.
function nameFit(panel) {
  const widest = Math.max(...panel.x.names.map((name) => textWidth(name, 400)));
  const wide = Math.max(60, (panel.width || 400) - (panel.room ?? 0) - 80); // without the values beside the axis
  const step = Math.ceil(((widest + 8) * panel.xs.length) / wide);
  const tilted = step > 1 && 18 * panel.xs.length <= wide;
  return { widest, tilted, step: tilted ? 1 : step };
}

function axes(panel) {
  const quiet = () => colour("quiet");
  const common = { stroke: quiet, font: `12px ${FONT}`, border: { show: false } };
  const ticks = { stroke: () => colour("rule"), width: 1, size: 4 };
  const x = { ...common, ticks, size: 30, gap: 4, space: 58, grid: { show: false }, border: { show: true, stroke: quiet, width: 1 } };
  if (panel.x.names) {
    const fit = () => nameFit(panel);
    x.splits = () => panel.xs;
    x.values = () => panel.x.names.map((name, place) => ((panel.xs.length - 1 - place) % fit().step === 0 ? name : null));
    x.rotate = () => (fit().tilted ? -TILT : 0);
    x.size = () => (fit().tilted ? 16 + Math.ceil(fit().widest * Math.sin((TILT * Math.PI) / 180)) : 30);
  } else {
    if (panel.x.levels) {
      const text = (value) => countText(+(value * panel.x.scale.factor).toPrecision(3));
      const few = (u) => levelMarks(u, panel.xs, text);
      x.splits = (u, axis, min, max, step) => {
        const marks = few(u);
        return marks.length ? marks : [min, max];
      };
      x.filter = (u, splits) => splits;
      x.values = (u, splits) => splits.map(text);
    } else if (panel.x.tail) {
      x.splits = (u, axis, min, max) => [...Array(8).keys()].map((nines) => 10 ** nines).filter((value) => value >= min * 0.99 && value <= max);
      x.filter = (u, splits) => splits;
      x.values = (u, splits) => splits.map(tailText);
    } else x.values = (u, splits) => splits.map((value) => markText(panel.x.scale, value, splits[1] - splits[0] || 1));
  }
  const y = {
    ...common,
    ticks: { show: false },
    gap: 6,
    space: 44,
    grid: { stroke: () => colour("rule"), width: 1 },
    values: (u, splits) => splits.map((value) => markText(panel.shares ? SHARES : panel.y.scale, value, splits[1] - splits[0] || 1)),
    size: panel.stacked ? 58 : (u, values) => Math.ceil(Math.max(...(values ?? ["0"]).map((v) => textWidth(v ?? "", 400)), 12)) + 12,
  };
  if (panel.heat) {
    const ratios = [1, 2, 5];
    y.splits = (u, axis, min, max) => [...Array(27).keys()].map((step) => ratios[step % 3] * 10 ** (Math.floor(step / 3) - 6)).filter((value) => value >= min && value <= max);
    y.filter = (u, splits) => splits;
    y.values = (u, splits) => splits.map((value) => countText(+(value * panel.y.scale.factor).toPrecision(3)));
  }
  return [x, y];
}

const SHARES = scaleOf("share", 1);

function axisTitle(side) {
  const symbol = side.scale.symbol;
  return symbol && symbol !== "/s" ? `${side.title} (${symbol})` : symbol ? `${side.title} (per second)` : side.title;
}

// What the pointer is at: the nearest level, or the bucket it is in.
function placeAt(u, panel) {
  if (!panel.bucket || u.cursor.idx == null) return u.cursor.idx;
  const bucket = Math.floor((u.posToVal(u.cursor.left, "x") - panel.xs[0]) / panel.bucket);
  return Math.max(0, Math.min(panel.xs.length - 1, bucket));
}

function heading(panel, at) {
  const x = panel.x;
  if (x.tail) return `${tailText(panel.xs[at])} of requests within`;
  if (panel.mark === "points") return null;
  if (panel.heat) return `${x.title} ${shown(x.unit, panel.xs[at])}`;
  if (x.names) return panel.mark === "bars" ? `${x.names[at]} ${x.title}` : x.names[at];
  if (panel.bucket) return `${x.title} ${shown(x.unit, panel.xs[at])} to ${shown(x.unit, panel.xs[at] + panel.bucket)}`;
  return x.unit === "count" ? `${countText(panel.xs[at])} ${x.title}` : `${x.title} ${shown(x.unit, panel.xs[at])}`;
}

// What stands at the pointer: every series with its value, interval and n.
function readout(u, panel, tip) {
  const at = placeAt(u, panel);
  const inside = at != null && u.cursor.left >= 0 && panel.xs.length > 0;
  tip.hidden = !inside;
  if (!inside) return;
  tip.replaceChildren();
  const title = heading(panel, at);
  if (title) make(tip, "div", "tip-title", title);
  const rows = visible(u, panel).filter(({ series }) => series.values[at] != null);
  let sum = 0;
  const counts = new Set();
  for (const { series } of panel.mark === "bars" ? rows.reverse() : rows) {
    const row = make(tip, "div", "tip-row");
    swatch(row, panel, series);
    const said = series.marked?.[at];
    make(row, "span", "", (series.labels?.[at] ?? series.name) + (said ? `, ${said}` : ""));
    const value = series.values[at];
    sum += value;
    const share = panel.mark === "bars" ? ` (${threeDigits(100 * partAt(u, { ...panel, shares: true }, series, at))} %)` : "";
    const text = make(row, "b", "", shown(panel.y.unit, value) + share);
    if (series.low?.[at] != null) {
      make(text, "small", "", ` ${intervalText(panel.y.unit, value, series.low[at], series.high[at])}`);
    }
    if (series.n?.[at] != null) counts.add(series.n[at]);
  }
  if (panel.mark === "bars") {
    const row = make(tip, "div", "tip-row tip-sum");
    make(row, "i");
    make(row, "span", "", "together");
    make(row, "b", "", shown(panel.y.unit, sum));
  }
  if (counts.size > 0) make(tip, "div", "tip-foot", `n = ${[...counts].join(", ")}`);
  tip.hidden = rows.length === 0;
  const room = u.over.clientWidth;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const over = u.over;
  const left = u.cursor.left + 14 + width > room ? u.cursor.left - width - 14 : u.cursor.left + 14;
  tip.style.left = `${Math.max(-over.offsetLeft, left) + over.offsetLeft}px`;
  const top = Math.min(Math.max(0, (u.cursor.top ?? 0) - height / 2), Math.max(0, over.clientHeight - height));
  tip.style.top = `${top + over.offsetTop}px`;
}

// Room for the names beside the chart, where the chart stays wide enough; else the switches name the series.
function labelRoom(panel, width) {
  if (["steps", "points", "heat"].includes(panel.mark) || panel.series.length < 2) return 0;
  const named = panel.series.filter((series) => series.mark !== "points"); // these are marks of a curve that has its name there
  if (named.length < 1) return 0;
  const widest = Math.max(...named.map((series) => textWidth(series.name, 600)));
  return width - widest < 300 || width < 420 ? 0 : Math.ceil(widest) + 28;
}

// Panels under one time axis keep their plots under each other: the same room on both sides.
function room(chart, panel, width) {
  return chart.layout === "stack" ? Math.max(...chart.panels.map((each) => labelRoom(each, width))) : labelRoom(panel, width);
}

function heightOf(chart, panel) {
  if (chart.layout === "stack" || (panel.mark === "steps" && chart.panels.length > 1)) return 150;
  if (panel.mark === "points" && !panel.x.names) return Math.min(340, panel.width * 0.7);
  return panel.width < 300 ? 170 : panel.width < 460 ? 200 : 250;
}

function build(figure, chart, panel, holder) {
  const top = topOf(panel);
  panel.stacked = chart.layout === "stack";
  panel.empty = top === 0 && bottomOf(panel) === 0;
  panel.y.scale = scaleOf(panel.y.unit, top || 1e-3);
  panel.x.scale = scaleOf(panel.x.unit, panel.xs[panel.xs.length - 1] ?? 1);
  const frame = make(holder, "div", "panel");
  const multiple = chart.panels.length > 1;
  const named = multiple && (panel.mark === "bars" || panel.mark === "steps");
  if (named) make(frame, "div", "panel-title", panel.title);
  const yTitle = make(frame, "div", "y-title", axisTitle(panel.y) + (panel.empty ? ": zero everywhere" : ""));
  const canvas = make(frame, "div", "canvas");
  make(frame, "div", "x-title", axisTitle(panel.x));
  const draw = { line: drawPoints, points: drawPoints, bars: drawStacks, steps: drawSteps, heat: drawHeat }[panel.mark];
  let tip = null;
  const zoomable = !panel.x.names;
  const size = () => {
    panel.width = Math.floor(canvas.clientWidth);
    return { width: panel.width, height: heightOf(chart, panel) };
  };
  const first = size();
  panel.room = room(chart, panel, first.width);
  const u = new uPlot({
    ...first,
    padding: [10, () => panel.room + (panel.room > 0 ? 10 : 24), 0, 0],
    legend: { show: false },
    cursor: {
      drag: { x: zoomable, y: false, setScale: zoomable, dist: 8 },
      y: false,
      x: panel.mark !== "points",
      points: { show: panel.mark === "line" || Boolean(panel.heat), size: 9 },
      sync: chart.layout === "stack" ? { key: figure.id } : undefined,
    },
    scales: {
      x: { time: false, distr: panel.x.log ? 3 : 1, log: panel.x.tail ? 10 : 2, range: (u, min, max) => panel.zoom ?? xRange(panel) },
      y: panel.heat ? { distr: 3, log: 10, range: () => [panel.heat.edges[0], panel.heat.edges.at(-1)] } : { range: (u) => [bottomOf(panel), (highest(u, panel, ...u.series[0].idxs) || -bottomOf(panel) || 1 / panel.y.scale.factor) * 1.06] },
    },
    axes: axes(panel),
    series: [{}, ...panel.series.map((series) => ({
      label: series.name,
      stroke: () => colour(series.tint),
      width: 2,
      spanGaps: Boolean(panel.x.levels), // no measurement at a level is a hole in the plan, in a second it is a fact
      points: { show: false },
      dash: dashOf(series).map((length) => length * DOTS()),
      ...(hasLine(panel, series) ? {} : { paths: () => null }),
    }))],
    hooks: {
      draw: [(u) => {
        if (panel.diagonal) drawDiagonal(u);
        draw(u, panel);
        if (panel.room > 0 && panel.series.length > 1) drawLabels(u, panel);
      }],
      setCursor: [(u) => tip && readout(u, panel, tip)],
      // A drag chooses a part of the axis; the range is ours to answer, so it is kept here.
      setSelect: [(u) => {
        if (u.select.width < 8) return;
        const ends = [u.select.left, u.select.left + u.select.width].map((left) => u.posToVal(left, "x"));
        zoom(figure, ends);
      }],
    },
  }, [panel.xs, ...panel.series.map((series) => series.values)], canvas);
  tip = make(u.root.querySelector(".u-wrap"), "div", "tip");
  tip.hidden = true;
  return { u, panel, size, frame, yTitle, room: (width) => room(chart, panel, width) };
}

// All panels under one time axis are zoomed together; others each alone would hide what is compared, so these too.
function zoom(figure, ends) {
  for (const { u, panel } of figure.built) {
    if (panel.x.names) continue;
    panel.zoom = ends;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    const [min, max] = ends ?? xRange(panel);
    u.setScale("x", { min, max });
  }
  figure.reset.hidden = !ends;
}

function toggle(bar, name, pressed, change) {
  const button = make(bar, "button");
  button.type = "button";
  make(button, "span", "", name);
  button.setAttribute("aria-pressed", String(pressed));
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    change(on);
  });
  return button;
}

// The names of the series, each a switch.
function switches(figure, chart, holder) {
  const bar = make(holder, "div", "switches");
  const several = chart.panels.filter((panel) => panel.series.length > 1);
  const byName = (panels) => new Map(panels.flatMap((panel) => panel.series.map((series) => [series.name, { panel, series }])));
  const names = byName(several);
  // A series that is alone is named, too, where the axis does not name it.
  const alone = chart.panels.filter((panel) => panel.series.length === 1 && !panel.y.title.includes(panel.series[0].name));
  for (const [name, { panel, series }] of byName(alone)) {
    if (names.has(name)) continue;
    const label = make(bar, "span", "only", name);
    label.prepend(swatch(label, panel, series));
  }
  for (const [name, { panel, series }] of names) {
    const button = toggle(bar, name, true, (show) => {
      for (const { u, panel } of figure.built) {
        panel.series.forEach((series, index) => series.name === name && u.setSeries(index + 1, { show }));
      }
    });
    button.prepend(swatch(button, panel, series));
  }
  if (chart.panels[0]?.mark === "bars") {
    toggle(bar, "as shares", false, (shares) => {
      for (const { u, panel, yTitle } of figure.built) {
        panel.shares = shares;
        yTitle.textContent = shares ? `share of ${panel.y.title} (%)` : axisTitle(panel.y);
        u.redraw(true, true);
        u.setData(u.data);
      }
    }).classList.add("view");
  }
  figure.reset = make(bar, "button", "reset", "Whole range");
  figure.reset.type = "button";
  figure.reset.hidden = true;
  figure.reset.addEventListener("click", () => zoom(figure, null));
}

// A figure is drawn when it is first seen: one in a folded section has no width.
function drawFigure(element) {
  if (element.clientWidth === 0 || charts.some((figure) => figure.element === element)) return;
  const chart = JSON.parse(element.querySelector('script[type="application/json"]').textContent);
  const holder = element.querySelector(".chart");
  const figure = { id: element.id, element, built: [] };
  switches(figure, chart, holder);
  const panels = make(holder, "div", "panels");
  // Not around the switches: what stands inside a picture is not read out.
  panels.setAttribute("role", "img");
  panels.setAttribute("aria-label", `${element.querySelector("h3").textContent}; the table below holds the data`);
  const count = chart.panels.length;
  if (count === 1) panels.classList.add("single", chart.panels[0].mark);
  else if (chart.layout === "grid" && count > 2 && chart.panels[0].mark !== "steps") panels.classList.add(count === 3 || (count % 3 === 0 && count % 4 !== 0) ? "three" : "four");
  for (const panel of chart.panels) figure.built.push(build(figure, chart, panel, panels));
  for (const { u } of figure.built) u.over.addEventListener("dblclick", () => zoom(figure, null));
  charts.push(figure);
  sizes.observe(element);
}

function resize(built) {
  const { u, panel, size, room } = built;
  const next = size();
  if (next.width <= 0 || (next.width === u.width && next.height === u.height)) return;
  panel.room = room(next.width);
  // At once: what is left for later is not on paper. There may be room for more texts along the axis, or for fewer.
  u.batch(() => {
    u.setSize(next);
    u.redraw(false, true);
  });
}
