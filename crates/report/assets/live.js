// Renews the page when there is a newer one, and puts the reader back: same place, same folds, same order of tables.
(() => {
  const KEPT = "krarup-live";
  const LEAST = 3000; // between two renewals, in milliseconds
  const bar = document.querySelector("aside.live");
  const page = Number(bar.dataset.page);
  const begun = performance.now();

  const folds = () => [...document.querySelectorAll("details")];
  // Sections are counted anew when there are more of them; their titles stay.
  function nameOf(fold) {
    if (fold.classList.contains("section")) return `section ${fold.querySelector("h2").textContent}`;
    return fold.closest('[id^="figure-"], [id^="table-"]')?.id ?? fold.className;
  }
  const places = () => [...document.querySelectorAll('main h2, main .card, main > section > p')].filter((place) => place.getClientRects().length > 0);
  const placeName = (place) => place.id || place.textContent;

  function keep() {
    const top = bar.getBoundingClientRect().bottom;
    const passed = places().filter((place) => place.getBoundingClientRect().top <= top + 40);
    const place = window.scrollY > 0 ? passed[passed.length - 1] : null;
    const sorted = [...document.querySelectorAll("[id] th[aria-sort]")].map((th) => [th.closest("[id]").id, th.cellIndex, th.getAttribute("aria-sort")]);
    return {
      folds: Object.fromEntries(folds().map((fold) => [nameOf(fold), fold.open])),
      place: place && [placeName(place), place.getBoundingClientRect().top],
      scroll: window.scrollY,
      scheme: document.documentElement.dataset.scheme,
      sorted,
    };
  }

  function fold(kept) {
    for (const one of folds()) one.open = kept.folds[nameOf(one)] ?? one.open;
  }

  function comeBack(kept) {
    const place = kept.place && places().find((one) => placeName(one) === kept.place[0]);
    const top = place ? window.scrollY + place.getBoundingClientRect().top - kept.place[1] : kept.scroll;
    window.scrollTo({ top, behavior: "instant" });
  }

  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(KEPT));
    sessionStorage.removeItem(KEPT);
  } catch { /* without storage the page begins at its top */ }
  if (kept) {
    history.scrollRestoration = "manual";
    if (kept.scheme) document.documentElement.dataset.scheme = kept.scheme;
    fold(kept); // before the figures are drawn
    document.addEventListener("DOMContentLoaded", () => {
      fold(kept);
      for (const [id, column, order] of kept.sorted) {
        const heading = document.getElementById(id)?.querySelector("thead tr")?.cells[column];
        for (let clicks = order === "descending" ? 2 : 1; heading && clicks > 0; clicks -= 1) heading.click();
      }
      comeBack(kept);
      // What unfolds is drawn a moment later.
      requestAnimationFrame(() => requestAnimationFrame(() => comeBack(kept)));
    });
  }

  const height = () => document.documentElement.style.setProperty("--live", `${bar.offsetHeight}px`);
  new ResizeObserver(height).observe(bar);
  height();

  let newest = page;
  let waits = null;
  let pressed = false;
  const busy = () => pressed || document.hidden || String(getSelection()) !== "";
  async function renew() {
    clearTimeout(waits);
    if (newest === page) return;
    const early = begun + LEAST - performance.now();
    if (early > 0 || busy()) {
      waits = setTimeout(renew, Math.max(early, 500));
      return;
    }
    try {
      const there = await fetch("/", { method: "HEAD" });
      if (!there.ok || busy()) throw new Error("not now");
      sessionStorage.setItem(KEPT, JSON.stringify(keep()));
      location.reload();
    } catch {
      waits = setTimeout(renew, 1000);
    }
  }
  window.addEventListener("pointerdown", () => (pressed = true));
  window.addEventListener("pointerup", () => (pressed = false));
  window.addEventListener("pointercancel", () => (pressed = false));
  document.addEventListener("visibilitychange", renew);

  let ends = null;
  // As all times of the page: in UTC.
  const clock = (seconds) => `${new Date(seconds * 1000).toISOString().slice(11, 19)} UTC`;
  const [state, line, left] = ["strong", "span", "em"].map((tag) => bar.querySelector(`p ${tag}`));
  function countDown() {
    if (ends == null) return;
    const seconds = Math.max(0, Math.round(ends - Date.now() / 1000));
    const long = seconds < 90 ? `${seconds} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
    left.textContent = `about ${long} left, until ${clock(ends)}`;
  }
  setInterval(countDown, 1000);

  const events = new EventSource("/events");
  events.addEventListener("message", (event) => {
    const status = JSON.parse(event.data);
    bar.dataset.state = status.over ? "over" : "running";
    state.textContent = status.state;
    line.textContent = status.line;
    left.textContent = status.left;
    ends = status.ends;
    countDown();
    bar.querySelector(".done i").style.width = `${status.share * 100}%`;
    newest = status.page;
    renew();
  });
  events.addEventListener("error", () => {
    if (bar.dataset.state !== "over") {
      bar.dataset.state = "lost";
      state.textContent = "Not connected.";
      line.textContent = "The run was stopped, or cannot be reached; the page is of the last trial that was shown.";
    } else {
      state.textContent = "The run has ended.";
    }
    ends = null;
    left.textContent = "";
  });
})();
