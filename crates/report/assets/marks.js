// What is drawn for each kind of panel, on the canvas of a uPlot chart. Coordinates are canvas pixels.

// Colours repeat after eight series: further ones have dashes and other shapes.
const MARK_SHAPES = ["circle", "square", "triangle", "diamond"];
const DASHES = [[], [6, 4], [2, 3], [9, 3, 2, 3]];
const dashOf = ({ round = 0 }) => DASHES[round % DASHES.length];
function shapeOf(panel, series) {
  const { tint, round = 0 } = series;
  const place = /^s\d$/.test(tint) ? Number(tint[1]) - 1 : panel.series.indexOf(series);
  return MARK_SHAPES[(place + round) % MARK_SHAPES.length];
}
// What is drawn of a series.
const hasLine = (panel, series) => panel.mark === "line" && series.mark !== "points";
const hasMarks = (panel, series) => panel.mark === "points" || series.mark === "points" || (panel.mark === "line" && series.mark !== "curve" && panel.xs.length <= 40);
// A value without neighbours, which no line leads to.
const isAlone = (series, place) => series.values[place] != null && series.values[place - 1] == null && series.values[place + 1] == null;
const DOTS = () => window.devicePixelRatio;

// Inside the axes only, so that what is zoomed out of view stays out.
function clipped(u, draw) {
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left - 5 * DOTS(), top - 5 * DOTS(), width + 10 * DOTS(), height + 5 * DOTS());
  u.ctx.clip();
  draw();
  u.ctx.restore();
}

const at = {
  x: (u, value) => u.valToPos(value, "x", true),
  y: (u, value) => u.valToPos(value, "y", true),
};

function visible(u, panel) {
  return panel.series.map((series, index) => ({ series, index })).filter(({ index }) => u.series[index + 1].show);
}

function drawMarker(ctx, shape, x, y, radius) {
  ctx.beginPath();
  if (shape === "square") ctx.rect(x - radius * 0.9, y - radius * 0.9, radius * 1.8, radius * 1.8);
  else if (shape === "triangle") {
    ctx.moveTo(x, y - radius * 1.2);
    ctx.lineTo(x + radius * 1.1, y + radius * 0.8);
    ctx.lineTo(x - radius * 1.1, y + radius * 0.8);
    ctx.closePath();
  } else if (shape === "diamond") {
    ctx.moveTo(x, y - radius * 1.3);
    ctx.lineTo(x + radius * 1.3, y);
    ctx.lineTo(x, y + radius * 1.3);
    ctx.lineTo(x - radius * 1.3, y);
    ctx.closePath();
  } else ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fill();
}

// Markers with their intervals. The lines between them are uPlot's own.
function drawPoints(u, panel) {
  const ctx = u.ctx;
  clipped(u, () => {
    for (const { series } of visible(u, panel)) {
      ctx.fillStyle = ctx.strokeStyle = colour(series.tint);
      ctx.lineWidth = 1.25 * DOTS();
      panel.xs.forEach((x, place) => {
        const value = series.values[place];
        if (value == null) return;
        const [left, top] = [at.x(u, x), at.y(u, value)];
        const [low, high] = [series.low?.[place], series.high?.[place]];
        if (low != null && high != null) {
          const [bottom, upper, cap] = [at.y(u, low), at.y(u, high), 3.5 * DOTS()];
          ctx.beginPath();
          ctx.moveTo(left, bottom);
          ctx.lineTo(left, upper);
          ctx.moveTo(left - cap, bottom);
          ctx.lineTo(left + cap, bottom);
          ctx.moveTo(left - cap, upper);
          ctx.lineTo(left + cap, upper);
          ctx.stroke();
        }
        if (hasMarks(panel, series)) drawMarker(ctx, shapeOf(panel, series), left, top, (hasLine(panel, series) ? 3.2 : 4) * DOTS());
        else if (!series.mark && !panel.x.levels && isAlone(series, place)) drawMarker(ctx, shapeOf(panel, series), left, top, 2 * DOTS());
      });
    }
    drawSaid(u, panel);
  });
}

// A ring around each point that something is said of, and the words above it, or below where there is no room.
function drawSaid(u, panel) {
  const ctx = u.ctx;
  const written = [];
  for (const { series } of visible(u, panel)) {
    (series.marked ?? []).forEach((words, place) => {
      if (words == null || series.values[place] == null) return;
      const [left, top] = [at.x(u, panel.xs[place]), at.y(u, series.values[place])];
      ctx.strokeStyle = colour("ink");
      ctx.lineWidth = 1.75 * DOTS();
      ctx.beginPath();
      ctx.arc(left, top, 7.5 * DOTS(), 0, 2 * Math.PI);
      ctx.stroke();
      const upper = Math.min(top - 10 * DOTS(), at.y(u, series.high?.[place] ?? series.values[place]) - 4 * DOTS());
      ctx.font = `600 ${11 * DOTS()}px ${FONT}`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.lineWidth = 3 * DOTS();
      ctx.strokeStyle = colour("card");
      const [half, tall] = [ctx.measureText(words).width / 2, 7 * DOTS()];
      const x = Math.min(Math.max(left, u.bbox.left + half), u.bbox.left + u.bbox.width - half);
      const free = (y) => y - tall > u.bbox.top && y + tall < u.bbox.top + u.bbox.height && !written.some((one) => Math.abs(one.x - x) < one.half + half && Math.abs(one.y - y) < 2 * tall);
      const y = [upper - tall, top + 17 * DOTS()].find(free);
      if (y == null) return; // the ring stays, and the words are at the pointer
      written.push({ x, y, half });
      ctx.strokeText(words, x, y);
      ctx.fillStyle = colour("ink");
      ctx.fillText(words, x, y);
    });
  }
}

// What a series has at a place: its value, or in a stack of shares its part of the sum of those shown.
function partAt(u, panel, series, place) {
  const value = series.values[place] ?? 0;
  if (!panel.shares) return value;
  const sum = visible(u, panel).reduce((sum, { series }) => sum + (series.values[place] ?? 0), 0);
  return sum > 0 ? value / sum : 0;
}

// One stack for each category; a hair of background between the parts.
function drawStacks(u, panel) {
  const ctx = u.ctx;
  const step = Math.abs(at.x(u, 1) - at.x(u, 0));
  const width = Math.min(step * 0.66, 56 * DOTS());
  clipped(u, () => {
    panel.xs.forEach((x, place) => {
      let base = 0;
      for (const { series } of visible(u, panel)) {
        const value = partAt(u, panel, series, place);
        const [bottom, top] = [at.y(u, base), at.y(u, base + value)];
        const gap = bottom - top > 3 * DOTS() ? DOTS() * 0.75 : 0;
        ctx.fillStyle = colour(series.tint);
        ctx.fillRect(at.x(u, x) - width / 2, top + gap, width, bottom - top - gap);
        base += value;
      }
    });
  });
}

// A translucent area under a firm outline, so that overlapping series stay readable.
function drawSteps(u, panel) {
  const ctx = u.ctx;
  clipped(u, () => {
    for (const { series } of visible(u, panel)) {
      const floor = at.y(u, 0);
      ctx.beginPath();
      ctx.moveTo(at.x(u, panel.xs[0]), floor);
      panel.xs.forEach((x, place) => {
        const top = at.y(u, series.values[place] ?? 0);
        ctx.lineTo(at.x(u, x), top);
        ctx.lineTo(at.x(u, x + panel.bucket), top);
      });
      ctx.lineTo(at.x(u, panel.xs[panel.xs.length - 1] + panel.bucket), floor);
      ctx.fillStyle = ctx.strokeStyle = colour(series.tint);
      ctx.globalAlpha = 0.22;
      ctx.fill();
      ctx.globalAlpha = 1;
      ctx.lineWidth = 1.75 * DOTS();
      ctx.stroke();
    }
  });
  drawMarks(u, panel);
}

// Values across the buckets: a line with its interval as a band, the name at its head.
function drawMarks(u, panel) {
  const ctx = u.ctx;
  const { left, top, width, height } = u.bbox;
  (panel.marks ?? []).forEach((mark, place) => {
    const x = at.x(u, mark.value);
    if (mark.value == null || x < left || x > left + width) return;
    clipped(u, () => {
      ctx.fillStyle = ctx.strokeStyle = colour("ink");
      if (mark.low != null && mark.high != null) {
        const [from, to] = [at.x(u, mark.low), at.x(u, mark.high)];
        ctx.globalAlpha = 0.12;
        ctx.fillRect(from, top, to - from, height);
        ctx.globalAlpha = 1;
      }
      ctx.lineWidth = 1.25 * DOTS();
      if (place > 0) ctx.setLineDash([4 * DOTS(), 3 * DOTS()]);
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.font = `600 ${11 * DOTS()}px ${FONT}`;
      ctx.textBaseline = "top";
      const text = `${mark.name} ${shown(panel.x.unit, mark.value)}`;
      const beside = x + 5 * DOTS() + ctx.measureText(text).width > left + width;
      ctx.textAlign = beside ? "right" : "left";
      ctx.fillText(text, x + (beside ? -5 : 5) * DOTS(), top + (2 + 14 * place) * DOTS());
    });
  });
}

// The darker, the more fell into a bucket in a window: by the root, so that few are seen, too.
function drawHeat(u, panel) {
  const ctx = u.ctx;
  const { length, edges, counts } = panel.heat;
  const most = Math.max(1, largest(counts.map(largest)));
  clipped(u, () => {
    ctx.fillStyle = colour("s1");
    panel.xs.forEach((x, place) => {
      const [from, to] = [at.x(u, x), at.x(u, x + length)];
      counts[place].forEach((count, bucket) => {
        if (count === 0) return;
        const [bottom, upper] = [at.y(u, edges[bucket]), at.y(u, edges[bucket + 1])];
        ctx.globalAlpha = 0.08 + 0.82 * Math.sqrt(count / most);
        ctx.fillRect(from, upper, to - from + 0.5, bottom - upper + 0.5);
      });
    });
    ctx.globalAlpha = 1;
    visible(u, panel).forEach(({ series }) => {
      ctx.strokeStyle = colour(series.tint);
      ctx.lineWidth = 2 * DOTS();
      ctx.beginPath();
      series.values.forEach((value, place) => {
        if (value == null) return;
        const [x, y] = [panel.xs[place], at.y(u, value)];
        if (isAlone(series, place)) {
          ctx.moveTo(at.x(u, x), y);
          ctx.lineTo(at.x(u, x + length), y);
        } else ctx[series.values[place - 1] != null ? "lineTo" : "moveTo"](at.x(u, x + length / 2), y);
      });
      ctx.stroke();
    });
  });
}

// Where both sides are equal.
function drawDiagonal(u) {
  const ctx = u.ctx;
  const end = Math.min(u.scales.x.max, u.scales.y.max);
  const start = Math.max(u.scales.x.min, u.scales.y.min);
  clipped(u, () => {
    ctx.strokeStyle = colour("quiet");
    ctx.lineWidth = DOTS();
    ctx.setLineDash([5 * DOTS(), 4 * DOTS()]);
    ctx.beginPath();
    ctx.moveTo(at.x(u, start), at.y(u, start));
    ctx.lineTo(at.x(u, end), at.y(u, end));
    ctx.stroke();
  });
}

// The height at which a series' label stands: its last point in view, or the middle of its part of the last stack.
function labelHeights(u, panel) {
  const labels = [];
  let base = 0;
  const shownSeries = visible(u, panel);
  const named = new Set(shownSeries.filter(({ series }) => series.mark !== "points").map(({ series }) => series.tint));
  for (const { series } of shownSeries) {
    if (series.mark === "points" && named.has(series.tint)) continue; // the curve they belong to has its name there
    const [first, last] = u.series[0].idxs;
    let place = last;
    while (place >= first && series.values[place] == null) place -= 1;
    const value = series.values[place];
    if (value == null) continue;
    if (panel.mark === "bars") {
      const part = partAt(u, panel, series, place);
      const [bottom, top] = [at.y(u, base), at.y(u, base + part)];
      base += part;
      labels.push({ series, y: (bottom + top) / 2 });
    } else labels.push({ series, y: at.y(u, value) });
  }
  return labels;
}

// The series' names beside what they name, kept apart where they would overlap.
function drawLabels(u, panel) {
  const gap = 15 * DOTS();
  const labels = labelHeights(u, panel).sort((a, b) => a.y - b.y);
  const { top, height, left, width } = u.bbox;
  labels.forEach((label, place) => {
    label.y = Math.max(label.y, place === 0 ? top + gap / 3 : labels[place - 1].y + gap);
  });
  for (let place = labels.length - 1; place >= 0; place -= 1) {
    const limit = place === labels.length - 1 ? top + height - gap / 4 : labels[place + 1].y - gap;
    labels[place].y = Math.min(labels[place].y, limit);
  }
  const ctx = u.ctx;
  ctx.save();
  ctx.font = `600 ${12 * DOTS()}px ${FONT}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const { series, y } of labels) {
    ctx.fillStyle = colour(series.tint);
    ctx.fillRect(left + width + 8 * DOTS(), y - 4 * DOTS(), 8 * DOTS(), 8 * DOTS());
    ctx.fillStyle = colour("ink");
    ctx.fillText(series.name, left + width + 20 * DOTS(), y);
  }
  ctx.restore();
}
