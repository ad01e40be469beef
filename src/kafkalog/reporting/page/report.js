"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (name) => document.getElementById(name);
const root = document.documentElement;
const number = (value) => Number(value).toLocaleString("en-US");

/* ---- colors: as the system, light, dark ---- */
const THEMES = ["system", "light", "dark"];
const theme = byId("theme");
const setTheme = (name) => {
  if (name === "system") delete root.dataset.theme; else root.dataset.theme = name;
  theme.textContent = "Colors: " + name;
  theme.setAttribute("aria-label", "Colors: " + (name === "system" ? "as the system" : name));
};
theme.addEventListener("click", () => {
  const now = root.dataset.theme || "system";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});

/* ---- sections ---- */
const sections = () => [...document.querySelectorAll("main > section > details")];
const fold = byId("fold");
const nameFold = () => { fold.textContent = sections().some((each) => each.open) ? "Collapse all" : "Expand all"; };
fold.addEventListener("click", () => {
  const open = !sections().some((each) => each.open);
  for (const each of sections()) each.open = open;
  nameFold();
});
for (const each of sections()) each.addEventListener("toggle", nameFold);
const reveal = () => {
  const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
  const details = target && target.querySelector("details");
  if (details) { details.open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", reveal);
reveal();
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const each of closed) each.open = true;
});
addEventListener("afterprint", () => { for (const each of closed) each.open = false; closed = []; });

/* ---- commands ---- */
const choose = (element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
};
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      choose(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

/* ---- appends over time ---- */
const rows = byId("time-rows");
if (rows && data.time) {
  for (const radio of document.querySelectorAll('input[name="unit"]')) {
    radio.addEventListener("change", () => rows.classList.toggle("by-records", radio.checked && radio.value === "records"));
  }
  const tell = (svg, x) => {
    const row = data.time.rows[Number(svg.dataset.row)];
    const box = svg.getBoundingClientRect();
    const at = Math.min(row.buckets.length - 1, Math.max(0, Math.floor((x - box.left) / box.width * row.buckets.length)));
    const [records, bytes] = row.buckets[at];
    const from = data.time.start + at * data.time.width;
    const when = Math.abs(from) < 8.64e15 ? new Date(from).toISOString().replace("T", " ").replace(".000Z", " UTC") : from + " ms";
    byId("time-text").textContent = row.name + ", from " + when + ": " + number(records) + " records, " + number(bytes) + " bytes";
  };
  for (const svg of rows.querySelectorAll("svg")) {
    svg.addEventListener("pointermove", (event) => tell(svg, event.clientX));
    svg.addEventListener("pointerdown", (event) => tell(svg, event.clientX));
  }
}

/* ---- the close look into a segment ---- */
const view = byId("view");
const segments = data.map.segments;
if (!view || !segments.length) return;
view.hidden = false;
const stage = byId("stage"), text = byId("view-text"), fromField = byId("from"), toField = byId("to");
const bars = new Map([...document.querySelectorAll(".bar")].map((bar) => [Number(bar.dataset.segment), bar]));
const SVG = "http://www.w3.org/2000/svg";
const KIND = 0, START = 1, END = 2, BATCHES = 3, RECORDS = 4, FIRST = 5, LAST = 6, DETAIL = 7, PLACES = 8;
const TOP = 8, HEIGHT = 62, AXIS = 88, WHOLE = 104, LEAST_BYTES = 8;
let at = 0, low = 0, high = 1, chosen = -1;
const isDamage = (row) => row[KIND] !== "S" && row[KIND] !== "A";

const make = (name, attributes) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};
const scale = () => {
  const width = Math.max(stage.clientWidth - 2, 100);
  return { width, x: (position) => (position - low) / (high - low) * width };
};
const draw = () => {
  const segment = segments[at];
  const { width, x } = scale();
  const svg = make("svg", { viewBox: "0 0 " + width + " 122", "aria-hidden": "true" });
  const order = segment.rows.map((row, index) => index).sort((a, b) => isDamage(segment.rows[a]) - isDamage(segment.rows[b]));
  for (const index of order) {
    const row = segment.rows[index];
    if (row[END] <= low || row[START] >= high) continue;
    const left = Math.max(x(row[START]), 0), right = Math.min(x(row[END]), width);
    const wide = Math.max(right - left, isDamage(row) ? 3 : 0.5);
    const gap = wide > 6 ? 1 : 0;
    svg.append(make("rect", { x: Math.min(left, width - wide), y: TOP, width: wide - gap, height: HEIGHT, class: "k-" + row[KIND], "data-row": index }));
    if (wide > 22 && (isDamage(row) || row[KIND] === "A" || wide > 60)) {
      const letter = make("text", { x: left + wide / 2, y: TOP + HEIGHT / 2 + 4, "text-anchor": "middle", class: "letter" });
      letter.textContent = row[KIND];
      svg.append(letter);
    }
  }
  if (chosen >= 0) {
    const row = segment.rows[chosen];
    if (row[END] > low && row[START] < high) {
      const left = Math.max(x(row[START]), 0), right = Math.min(x(row[END]), width);
      svg.append(make("rect", { x: left, y: TOP - 4, width: Math.max(right - left, 3), height: HEIGHT + 8, class: "chosen" }));
    }
  }
  const ticks = Math.max(2, Math.min(8, Math.floor(width / 130)));
  for (let tick = 0; tick <= ticks; tick += 1) {
    const place = width * tick / ticks;
    svg.append(make("line", { x1: place, x2: place, y1: TOP + HEIGHT, y2: TOP + HEIGHT + 6, class: "axis" }));
    const label = make("text", { x: place, y: AXIS, "text-anchor": tick === 0 ? "start" : tick === ticks ? "end" : "middle" });
    label.textContent = number(Math.round(low + (high - low) * tick / ticks));
    svg.append(label);
  }
  const size = segment.size || 1;
  svg.append(make("rect", { x: 0, y: WHOLE, width, height: 8, class: "f-S" }));
  for (const row of segment.rows) {
    if (row[KIND] === "S") continue;
    const wide = Math.max((row[END] - row[START]) / size * width, 2);
    svg.append(make("rect", { x: Math.min(row[START] / size * width, width - wide), y: WHOLE, width: wide, height: 8, class: "f-" + row[KIND] }));
  }
  svg.append(make("rect", { x: low / size * width + 1, y: WHOLE - 3, width: Math.max((high - low) / size * width - 2, 3), height: 14, class: "window" }));
  stage.replaceChildren(svg);
  stage.dataset.low = low;
  stage.dataset.high = high;
  fromField.value = Math.floor(low);
  toField.value = Math.ceil(high);
};
const sentence = (row) => {
  const segment = segments[at];
  const parts = [row[KIND] + " " + data.map.kinds[row[KIND]] + ": bytes " + number(row[START]) + " to " + number(row[END]) + " (" + number(row[END] - row[START]) + " bytes)"];
  if (row[BATCHES]) {
    parts.push(number(row[BATCHES]) + (row[BATCHES] === 1 ? " batch" : " batches") + ", " + number(row[RECORDS]) + " records");
    if (row[FIRST] !== null) parts.push("offsets " + row[FIRST] + " to " + row[LAST]);
  }
  if (row[PLACES] > 1) parts.push(number(row[PLACES]) + " stretches of several kinds are drawn as the worst of them");
  const detail = data.map.details[row[DETAIL]];
  if (detail) parts.push(detail);
  return segment.name + ", segment " + segment.base + ". " + parts.join("; ") + ".";
};
const tell = (index) => {
  const row = segments[at].rows[index];
  text.textContent = row ? sentence(row) : segments[at].size ? "" : "The segment is empty.";
};
const show = (from, to) => {
  const size = Math.max(segments[at].size, 1);
  const span = Math.min(Math.max(to - from, Math.min(LEAST_BYTES, size)), size);
  low = Math.min(Math.max(from, 0), size - span);
  high = low + span;
  draw();
};
const select = (index, follow) => {
  const row = segments[at].rows[index];
  chosen = row ? index : -1;
  if (row && follow && (row[END] > high || row[START] < low)) {
    const span = Math.max(high - low, (row[END] - row[START]) * 1.2);
    show((row[START] + row[END] - span) / 2, (row[START] + row[END] + span) / 2);
  } else draw();
  tell(chosen);
};
const open = (index, focus) => {
  bars.get(at)?.removeAttribute("aria-current");
  at = Math.min(Math.max(index, 0), segments.length - 1);
  bars.get(at)?.setAttribute("aria-current", "true");
  const segment = segments[at];
  chosen = -1;
  byId("view-title").textContent = segment.name + ", segment " + segment.base;
  byId("view-file").textContent = segment.file;
  show(0, segment.size || 1);
  const damage = segment.rows.findIndex(isDamage);
  select(damage >= 0 ? damage : segment.rows.length ? 0 : -1, false);
  if (focus) { stage.focus({ preventScroll: true }); view.scrollIntoView({ block: "nearest" }); }
};
const zoom = (factor, center) => {
  const row = segments[at].rows[chosen];
  const middle = center ?? (row && row[START] < high && row[END] > low ? (Math.max(row[START], low) + Math.min(row[END], high)) / 2 : (low + high) / 2);
  const span = Math.max((high - low) * factor, Math.min(LEAST_BYTES, segments[at].size || 1));
  const part = (middle - low) / (high - low);
  show(middle - span * part, middle + span * (1 - part));
};
const nextDamage = () => {
  for (let step = 0; step <= segments.length; step += 1) {
    const index = (at + step) % segments.length;
    const found = segments[index].rows.findIndex((row, place) => isDamage(row) && (step > 0 || place > chosen));
    if (found < 0) continue;
    if (index !== at) open(index, false);
    const row = segments[index].rows[found];
    const span = Math.max((row[END] - row[START]) * 4, Math.min(segments[index].size, 1024));
    show((row[START] + row[END] - span) / 2, (row[START] + row[END] + span) / 2);
    select(found, true);
    return;
  }
  text.textContent = "There is no damage in what is drawn.";
};
const pan = (part) => show(low + (high - low) * part, high + (high - low) * part);
const doing = {
  previous: () => open(at - 1, false), next: () => open(at + 1, false), damage: nextDamage,
  in: () => zoom(0.5), out: () => zoom(2), whole: () => show(0, segments[at].size || 1),
};
for (const button of view.querySelectorAll("button[data-do]")) button.addEventListener("click", doing[button.dataset.do]);
byId("range").addEventListener("submit", (event) => {
  event.preventDefault();
  const from = Number(fromField.value.replaceAll(",", "")), to = Number(toField.value.replaceAll(",", ""));
  if (Number.isFinite(from) && Number.isFinite(to) && to > from) show(from, to);
  else text.textContent = "Give two positions in bytes, the second above the first.";
});
for (const [index, bar] of bars) bar.addEventListener("click", () => open(index, true));
stage.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const last = segments[at].rows.length - 1;
  const keys = {
    ArrowLeft: () => event.shiftKey ? pan(-0.25) : select(Math.max(chosen - 1, 0), true),
    ArrowRight: () => event.shiftKey ? pan(0.25) : select(Math.min(chosen + 1, last), true),
    Home: () => select(Math.min(0, last), true), End: () => select(last, true),
    "+": doing.in, "=": doing.in, "-": doing.out, "_": doing.out, "0": doing.whole,
    PageUp: doing.previous, PageDown: doing.next,
  };
  const act = keys[event.key];
  if (act) { event.preventDefault(); act(); }
});
const positionAt = (event) => {
  const box = stage.getBoundingClientRect();
  return low + (event.clientX - box.left) / box.width * (high - low);
};
const rowAt = (event) => {
  const marked = event.target.dataset?.row;
  if (marked !== undefined) return Number(marked);
  const position = positionAt(event);
  return segments[at].rows.findIndex((row) => row[START] <= position && position < row[END]);
};
stage.addEventListener("wheel", (event) => {
  if (!(event.ctrlKey || event.shiftKey || document.activeElement === stage)) return;
  event.preventDefault();
  zoom(Math.exp((event.deltaY || event.deltaX) * 0.002), positionAt(event));
}, { passive: false });
const fingers = new Map();
let dragged = false, spread = 0;
const distance = () => { const [a, b] = [...fingers.values()]; return Math.abs(a.clientX - b.clientX); };
stage.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, event);
  stage.setPointerCapture(event.pointerId);
  dragged = false;
  if (fingers.size === 2) spread = distance();
});
stage.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) { if (event.pointerType === "mouse") tell(rowAt(event)); return; }
  const width = stage.getBoundingClientRect().width;
  fingers.set(event.pointerId, event);
  if (fingers.size === 2) {
    const now = distance();
    if (spread > 8 && now > 8) zoom(spread / now, positionAt(event));
    spread = now;
    dragged = true;
  } else if (Math.abs(event.clientX - before.clientX) > 0) {
    dragged = dragged || Math.abs(event.clientX - before.clientX) > 2;
    if (dragged) show(low - (event.clientX - before.clientX) / width * (high - low), high - (event.clientX - before.clientX) / width * (high - low));
  }
});
const lifted = (event) => {
  if (fingers.delete(event.pointerId) && !dragged && event.type === "pointerup") {
    const position = positionAt(event);
    select(segments[at].rows.findIndex((row) => row[START] <= position && position < row[END]), false);
  }
};
stage.addEventListener("pointerup", lifted);
stage.addEventListener("pointercancel", lifted);
stage.addEventListener("pointerleave", () => tell(chosen));
stage.addEventListener("dblclick", () => {
  const row = segments[at].rows[chosen];
  if (row) show(row[START] - (row[END] - row[START]) * 0.1, row[END] + (row[END] - row[START]) * 0.1);
});
new ResizeObserver(() => draw()).observe(stage);
const first = segments.findIndex((segment) => segment.rows.some(isDamage));
open(Math.max(first, 0), false);
})();
