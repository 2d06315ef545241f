// Numbers for people, as the tables write them: three digits, one unit along an axis.

function threeDigits(value) {
  const size = Math.abs(value);
  return size >= 99.95 ? value.toFixed(0) : size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

function grouped(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

function countText(value) {
  return Math.abs(value) < 99.95 && value % 1 !== 0 ? threeDigits(value) : grouped(value);
}

// The scale in which `typical` has readable digits: a factor and a symbol.
function scaleOf(unit, typical) {
  switch (unit) {
    case "seconds":
      if (typical >= 1) return { factor: 1, symbol: "s" };
      if (typical >= 1e-3) return { factor: 1e3, symbol: "ms" };
      if (typical >= 1e-6) return { factor: 1e6, symbol: "µs" };
      return { factor: 1e9, symbol: "ns" };
    case "per-second": return { factor: 1, symbol: "/s" };
    case "share": return { factor: 100, symbol: "%" };
    case "cores": return { factor: 1, symbol: "cores" };
    default: return { factor: 1, symbol: "" };
  }
}

// A value alone, its unit beside it.
function shown(unit, value) {
  if (value == null) return "–";
  if (unit === "per-second") return countText(value) + "/s";
  if (unit === "count" || unit === "text") return countText(value);
  const scale = scaleOf(unit, Math.abs(value) * 1.0005);
  const scaled = value * scale.factor;
  return (scaled >= 999.5 ? grouped(scaled) : threeDigits(scaled)) + " " + scale.symbol;
}

// The mark of an axis: as many decimals as the distance between two marks needs.
function markText(scale, value, step) {
  const scaled = value * scale.factor;
  const distance = step * scale.factor;
  let decimals = 0;
  while (decimals < 6 && Math.abs(distance * 10 ** decimals - Math.round(distance * 10 ** decimals)) > 1e-6) decimals += 1;
  return decimals > 0 ? scaled.toFixed(decimals) : grouped(scaled);
}

// An interval beside its value: half of it, the upper half where the lower one ends at zero; both ends where they are not equally far away.
function intervalText(unit, value, low, high) {
  const upper = high - value;
  if (low === 0 && value >= 0) return `± ${shown(unit, upper)}`;
  const uneven = Math.abs(upper - (value - low)) > 0.05 * (high - low);
  return uneven ? `(${shown(unit, low)} to ${shown(unit, high)})` : `± ${shown(unit, (high - low) / 2)}`;
}

// A share of requests from 1 / (1 - share): two digits of what is left to 1 tell it from its neighbours.
function tailText(x) {
  const left = 100 / x;
  const decimals = Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(left))));
  return `${Number((100 - left).toFixed(decimals))} %`;
}
