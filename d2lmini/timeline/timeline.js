/* Makes the timelines of a page explorable: zoom, pan, keys, read-outs.

   All that is shown is read from the static drawing of d2lmini/timeline/svg.py, which stays as it
   is where no scripts run. Plain JavaScript, nothing is loaded. Tests: tests/timeline/test_widget.py.

   No library does this: vis-timeline (256 kB minified) and timelines-chart (146 kB) have dates for
   an axis and no keys; flame-chart-js (93 kB) draws on a canvas, which no screen reader reads, and
   nests its spans; d3-flame-graph has no axis of time; all of them want data in place of the
   drawing that is there. */
(() => {
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const ROW = 24, AXIS = 24, CHARACTER = 6.4, NAME = 15;  // as in layout.py; height of a name above
const NARROW = 520;  // narrower than this, lane names stand above the lanes
const MOST = 100;  // zoom
const POWER = { n: 1e-9, "µ": 1e-6, m: 1e-3, "": 1 };
const TIMES = /^at (\S+) ([nµm]?)s, lasts (\S+) ([nµm]?)s$/;
const STYLE = `
.d2l-tl-live{position:relative}
.d2l-tl-head{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:2px 14px}
.d2l-tl-bar{display:flex;gap:4px;margin-left:auto}
.d2l-tl-bar button{font:14px/1 system-ui,sans-serif;min-width:28px;height:28px;padding:0 6px;
 color:inherit;background:none;border:1px solid;border-radius:4px;cursor:pointer;opacity:.85}
.d2l-tl-bar button:hover{opacity:1;background:rgba(128,128,128,.2)}
.d2l-tl-bar button[aria-disabled=true]{opacity:.4;cursor:default}
.d2l-tl-live .d2l-tl-scroll{flex:1;overflow:hidden;touch-action:pan-y;cursor:default}
.d2l-tl-live.d2l-tl-zoomed .d2l-tl-scroll{cursor:grab}
.d2l-tl-live .d2l-tl-scroll:focus-visible,.d2l-tl-bar button:focus-visible
 {outline:2px solid var(--pst-color-link,#0072b2);outline-offset:1px}
.d2l-tl-live.d2l-tl-phone .d2l-tl-body>svg{display:none}
.d2l-tl-cursor{stroke:currentColor;stroke-dasharray:3 2;pointer-events:none}
.d2l-tl-now{font:600 11px system-ui,sans-serif;fill:currentColor;pointer-events:none}
.d2l-tl-mark{fill:none;stroke:currentColor;stroke-width:2.4;pointer-events:none}
.d2l-tl-tip{position:fixed;z-index:5;max-width:min(320px,100vw);padding:5px 9px;border-radius:5px;
 font:12px/1.45 system-ui,sans-serif;pointer-events:none;overflow-wrap:anywhere;box-sizing:border-box;
 color:var(--pst-color-text-base,CanvasText);background:var(--pst-color-surface,Canvas);
 border:1px solid var(--pst-color-border,GrayText);box-shadow:0 2px 8px rgba(0,0,0,.3)}
.d2l-tl-tip[hidden]{display:none}
.d2l-tl-tip b,.d2l-tl-tip span{display:block}
.d2l-tl-unseen{position:absolute;top:0;left:0;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);margin:0}
@media print{.d2l-tl-bar,.d2l-tl-tip{display:none}}`;

/* Reading */

const numeral = (text) => Number(text.replace(/,/g, ""));

/** The interval that a number of three digits stands for, in seconds. */
function written(text, prefix) {
  const value = numeral(text), half = value && 0.5 * 10 ** (Math.floor(Math.log10(value)) - 2);
  return [value - half, value + half].map((x) => x * POWER[prefix]);
}

/** What two intervals share; the second if they share nothing. */
function both(a, b) {
  const low = Math.max(a[0], b[0]), high = Math.min(a[1], b[1]);
  return low <= high * (1 + 1e-9) ? [low, high] : b;
}

const middle = (interval) => (interval[0] + interval[1]) / 2;

/** Shorten a profiler's name, as kinds.py does. */
function short(name) {
  name = name.replace(/^autograd::engine::evaluate_function: /, "");
  if (!/::|</.test(name)) return name;
  name = name.replace(/^void /, "").replaceAll("(anonymous namespace)", "");
  return name.split(/[<(]/)[0].split("::").pop() || name;
}

/** One box: its name, kind, how many spans, and from when to when (seconds of the axis). */
function readBox(group, scale, width, kinds) {
  const title = group.querySelector("title").textContent, rect = group.querySelector("rect");
  const lines = title.split("\n"), at = lines.findLastIndex((line) => TIMES.test(line));
  const [, start, before, lasts, prefix] = TIMES.exec(lines[at]);
  const first = lines.slice(0, at).join(" ");
  const x = Number(rect.getAttribute("x")), wide = Number(rect.getAttribute("width"));
  const all = / \((\d+) operations\)$/.exec(first), parts = /^\d+ x .+?(, \d+ x .+?)*$/.test(first);
  let count = 1;
  if (all) count = Number(all[1]);
  else if (parts) count = first.split(/, (?=\d+ x )/).reduce((n, part) => n + parseInt(part), 0);
  const begin = middle(both(written(start, before), [x - 0.05, x + 0.05].map((p) => p * scale)));
  const thin = wide <= 0.7 ? 0 : wide - 0.1;
  let extent = [thin, Math.max(wide, 0.7) + 0.1].map((p) => p * scale);
  if (count === 1) extent = both(written(lasts, prefix), extent);
  const fill = /-(\d+)\)$/.exec(rect.getAttribute("fill"));
  return {
    group, rect, text: group.querySelector("text"), title, name: first, count,
    when: `starts at ${start} ${before}s, lasts ${lasts} ${prefix}s`, more: lines.slice(at + 1),
    kind: fill ? kinds[fill[1]] : "", ink: null,
    start: begin, end: Math.min(begin + middle(extent), width * scale),
    busy: numeral(lasts) * POWER[prefix], y: Number(rect.getAttribute("y")),
  };
}

/** All that a static timeline says. */
function read(root) {
  const plot = root.querySelector(".d2l-tl-scroll > svg");
  const names = [...root.querySelectorAll(".d2l-tl-body > svg > text")];
  const label = (text) => [...text.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("");
  const title = plot.getAttribute("aria-label"), width = Number(plot.getAttribute("width"));
  const [, spans, length, prefix] = /^Timeline of (\d+) spans, (\S+) ([nµm]?)s/.exec(title);
  const seconds = Number(length) * POWER[prefix] || 1e-9;
  const kinds = [...root.querySelectorAll(".d2l-tl-legend > span")].map((s) => s.textContent);
  const lanes = [...plot.querySelectorAll("rect.d2l-tl-lane")].map((rect, i) => ({
    rect, name: label(names[i]), hint: names[i].querySelector("title")?.textContent ?? "",
    y: Number(rect.getAttribute("y")), height: Number(rect.getAttribute("height")), boxes: [],
  }));
  for (const group of plot.querySelectorAll(".d2l-tl-boxes > g")) {
    const box = readBox(group, seconds / width, width, kinds);
    box.lane = lanes.find((lane) => box.y >= lane.y && box.y < lane.y + lane.height);
    box.lane.boxes.push(box);
  }
  for (const lane of lanes) lane.boxes.sort((a, b) => a.start - b.start || a.y - b.y);
  const axis = label(names.at(-1));
  return { plot, title, spans: Number(spans), seconds, lanes, axis,
    perUnit: POWER[/\(([nµm]?)s\)$/.exec(axis)[1]] };
}

/** The share of the time in which a lane has something to do. */
function busyShare(lane, seconds) {
  let reached = 0, busy = 0;
  for (const box of lane.boxes) {
    const from = Math.max(box.start, reached), open = Math.max(0, box.end - from);
    busy += box.count > 1 ? Math.min(open, box.busy) : open;
    reached = Math.max(reached, box.end);
  }
  return busy / seconds;
}

/** The text for those who do not see the picture. */
function summary(model) {
  const shares = model.lanes.map((lane) => [busyShare(lane, model.seconds), lane]);
  shares.sort((a, b) => b[0] - a[0]);
  const lanes = shares.slice(0, 4).map(([share, lane]) => {
    const kinds = {};
    for (const box of lane.boxes) kinds[box.kind] = (kinds[box.kind] ?? 0) + box.busy;
    const most = Object.keys(kinds).sort((a, b) => kinds[b] - kinds[a])[0];
    const count = lane.boxes.reduce((n, box) => n + box.count, 0);
    return `${lane.name}: busy ${Math.round(100 * share)} percent of the time, ${count} spans, mostly ${most}`;
  });
  const head = `${model.title}, ${model.lanes.length} lanes. The busiest: `;
  return `${head}${lanes.join("; ")}. Arrow keys move from span to span, plus and minus zoom, `
    + "0 shows all, Shift and an arrow key move the view, Enter zooms to a span.";
}

/** Round values of an axis from low to high with at most `most` of them; and their decimals. */
function ticks(low, high, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => (high - low) / s <= most);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) values.push(i * step);
  return { values, decimals };
}

/* Drawing */

const element = (tag, attributes, text) => {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const html = (tag, attributes, ...children) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
};

class Widget {
  constructor(root, number) {
    this.root = root;
    this.number = number;
    this.model = read(root);
    this.from = 0;  // the view, in seconds of the axis
    this.to = this.model.seconds;
    this.chosen = null;
    this.pointers = new Map();
    this.prepare();
    this.listen();
    new ResizeObserver(() => this.later()).observe(root);
    this.draw();
  }

  /** Add what the static drawing has not. */
  prepare() {
    const { root, model } = this, plot = model.plot;
    this.area = plot.parentElement;
    root.classList.add("d2l-tl-live");
    const bar = html("div", { className: "d2l-tl-bar" });
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", `Zoom timeline ${this.number}`);
    this.buttons = [
      ["+", "Zoom in", () => this.zoom(2)], ["−", "Zoom out", () => this.zoom(0.5)],
      ["◀", "Earlier", () => this.pan(-0.4)], ["▶", "Later", () => this.pan(0.4)],
      ["All", "Show all", () => this.show(0, model.seconds)],
    ].map(([text, name, act]) => {
      const button = html("button", { type: "button", title: name, onclick: act }, text);
      button.setAttribute("aria-label", text === "All" ? "All: show the whole timeline" : name);
      bar.append(button);
      return button;
    });
    const legend = root.querySelector(".d2l-tl-legend"), head = html("div", { className: "d2l-tl-head" });
    legend.replaceWith(head);
    head.append(legend, bar);
    this.summary = html("p", { className: "d2l-tl-unseen", id: `d2l-tl-${this.number}` }, summary(model));
    this.status = html("div", { className: "d2l-tl-unseen" });
    this.status.setAttribute("role", "status");
    this.tip = html("div", { className: "d2l-tl-tip", hidden: true });
    this.tip.setAttribute("aria-hidden", "true");
    root.append(this.summary, this.status, this.tip);
    this.area.setAttribute("role", "application");
    this.area.setAttribute("aria-roledescription", "timeline");
    this.area.setAttribute("aria-label", model.title.replace(/^Timeline of/, `Timeline ${this.number}:`));
    this.area.setAttribute("aria-describedby", this.summary.id);
    for (const box of model.lanes.flatMap((lane) => lane.boxes)) {
      box.group.querySelector("title").remove();  // the read-out takes its place
      if (!box.text) box.group.append((box.text = element("text", {})));
      box.look = plot.querySelector(`pattern[id="${box.rect.getAttribute("fill").slice(5, -1)}"] > path`);
      const colour = box.look?.getAttribute("fill") ?? "#999";
      box.text.setAttribute("stroke", colour);
      box.text.setAttribute("fill", colour === "#0072B2" ? "#fff" : "#000");
    }
    for (const old of plot.querySelectorAll(".d2l-tl-grid, .d2l-tl-text")) old.remove();
    this.grid = element("g", { "aria-hidden": "true" });
    plot.querySelector(".d2l-tl-boxes").before(this.grid);
    this.mark = element("rect", { class: "d2l-tl-mark", rx: 1, visibility: "hidden" });
    this.cursor = element("path", { class: "d2l-tl-cursor", visibility: "hidden" });
    this.now = element("text", { class: "d2l-tl-now", visibility: "hidden" });
    plot.append(this.mark, this.cursor, this.now);
  }

  later() {
    this.asked ??= requestAnimationFrame(() => { this.asked = null; this.draw(); });
  }

  x(seconds) { return (seconds - this.from) / (this.to - this.from) * this.width; }
  time(x) { return this.from + x / this.width * (this.to - this.from); }

  draw(printed) {
    const room = printed ?? this.root.clientWidth;
    if (!room) return;  // folded away
    const { model } = this, phone = room < NARROW;
    this.root.classList.toggle("d2l-tl-phone", phone);
    this.root.classList.toggle("d2l-tl-zoomed", this.to - this.from < model.seconds * 0.9999);
    const names = this.root.querySelector(".d2l-tl-body > svg");
    this.width = phone ? room : Math.max(room - Number(names.getAttribute("width")), 100);
    const shift = phone ? NAME : 0, last = model.lanes.at(-1);
    this.bottom = last.y + last.height + 10 + shift * model.lanes.length;
    const height = this.bottom + AXIS + shift;
    model.plot.setAttribute("width", this.width);
    model.plot.setAttribute("height", height);
    this.grid.replaceChildren();
    model.lanes.forEach((lane, i) => {
      lane.shift = shift * (i + 1);
      lane.rect.setAttribute("y", lane.y + lane.shift);
      lane.rect.setAttribute("width", this.width);
      if (phone) this.letter(0, lane.y + lane.shift - 4, lane.name, "start");
      for (const box of lane.boxes) this.drawBox(box);
    });
    this.drawAxis(phone);
    this.drawMark();
    const whole = !this.root.classList.contains("d2l-tl-zoomed");
    const closest = this.to - this.from < model.seconds / MOST * 1.001;
    [closest, whole, this.from <= 0, this.to >= model.seconds, whole].forEach((off, i) =>
      this.buttons[i].setAttribute("aria-disabled", off));
  }

  letter(x, y, text, anchor) {
    this.grid.append(element("text", { class: "d2l-tl-text", x, y, "text-anchor": anchor }, text));
  }

  drawBox(box) {
    const left = this.x(box.start), right = Math.max(this.x(box.end), left + 0.7);
    const out = right < 0 || left > this.width;
    box.group.style.display = out ? "none" : "";
    if (out) return;
    const a = Math.max(left, -9), b = Math.min(right, this.width + 9), y = box.y + box.lane.shift;
    box.rect.setAttribute("x", a.toFixed(1));
    box.rect.setAttribute("y", y);
    box.rect.setAttribute("width", (b - a).toFixed(1));
    const low = Math.max(left, 0), high = Math.min(right, this.width), room = (high - low - 6) / CHARACTER;
    const name = box.count > 1 ? box.name : short(box.name);
    const texts = box.count > 1 ? [name, `${box.count} x ${box.kind}`, `${box.count} operations`]
      : [name, name.split(" ")[0]];
    box.text.textContent = texts.find((text) => text.length <= room) ?? "";
    box.text.setAttribute("x", ((low + high) / 2).toFixed(1));
    box.text.setAttribute("y", y + 15);
  }

  drawAxis(phone) {
    const per = this.model.perUnit;
    const { values, decimals } = ticks(this.from / per, this.to / per, Math.max(2, this.width / 75));
    for (const value of values) {
      const x = this.x(value * per), anchor = x < 16 ? "start" : x > this.width - 16 ? "end" : "middle";
      this.grid.append(element("path", { class: "d2l-tl-grid", d: `M${x.toFixed(1)} 0V${this.bottom}` }));
      this.letter(x.toFixed(1), this.bottom + 15, value.toFixed(decimals), anchor);
    }
    if (phone) this.letter(this.width / 2, this.bottom + 15 + NAME, this.model.axis, "middle");
    this.decimals = decimals;
  }

  drawMark() {
    const box = this.chosen, shown = box && box.group.style.display !== "none";
    this.mark.setAttribute("visibility", shown ? "visible" : "hidden");
    if (!shown) return;
    const left = Math.max(this.x(box.start), 0), right = Math.min(this.x(box.end), this.width);
    const at = { x: left, y: box.y + box.lane.shift, width: Math.max(right - left, 1), height: ROW - 4 };
    for (const [key, value] of Object.entries(at)) this.mark.setAttribute(key, value);
  }

  /** The line through all lanes, with its time below. */
  drawCursor(x) {
    const shown = x === null ? "hidden" : "visible";
    this.cursor.setAttribute("visibility", shown);
    this.now.setAttribute("visibility", shown);
    if (x === null) return;
    this.cursor.setAttribute("d", `M${x} 0V${this.bottom}`);
    const right = x > this.width - 60;
    this.now.textContent = (this.time(x) / this.model.perUnit).toFixed(this.decimals + 2);
    this.now.setAttribute("x", right ? x - 4 : x + 4);
    this.now.setAttribute("y", this.bottom - 2);
    this.now.setAttribute("text-anchor", right ? "end" : "start");
  }

  /* Moving */

  show(from, to) {
    const all = this.model.seconds, length = Math.min(Math.max(to - from, all / MOST), all);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - length / 2, 0), all - length);
    this.to = this.from + length;
    this.drawCursor(null);
    this.tell(null);
    this.draw();
  }

  /** Zoom; what is at `at` stays where it is. */
  zoom(factor, at) {
    if (at === undefined) {
      const box = this.chosen, seen = box && box.end > this.from && box.start < this.to;
      at = seen ? (box.start + box.end) / 2 : (this.from + this.to) / 2;
    }
    const all = this.model.seconds, length = this.to - this.from;
    const next = Math.min(Math.max(length / factor, all / MOST), all);
    const from = at - (at - this.from) / length * next;
    this.show(from, from + next);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    const from = Math.min(Math.max(this.from + by, 0), this.model.seconds - (this.to - this.from));
    this.show(from, from + this.to - this.from);
  }

  /** Choose a box and say what it is. */
  choose(box, aloud) {
    this.chosen = box;
    const length = this.to - this.from;
    if (box.start < this.from || Math.min(box.end, box.start + length / 2) > this.to) {
      this.show(box.start - length / 4, box.start + length * 3 / 4);
    }
    this.drawMark();
    this.tell(box);
    this.drawCursor(Math.min(Math.max(this.x(box.start), 0), this.width));
    if (!aloud) return;
    const place = box.lane.boxes.indexOf(box) + 1;
    this.status.textContent = [box.name, box.lane.name, box.when, ...box.more,
      `${place} of ${box.lane.boxes.length} in this lane`].join(", ");
  }

  forget() {
    this.chosen = null;
    this.drawMark();
    this.drawCursor(null);
    this.tell(null);
  }

  /** Show the read-out of a box. */
  tell(box) {
    this.tip.hidden = !box;
    if (!box) return;
    const lane = [box.lane.name, box.lane.hint, box.kind].filter(Boolean).join(" · ");
    const lines = [lane, box.when, ...box.more].map((line) => html("span", {}, line));
    this.tip.replaceChildren(html("b", {}, box.name), ...lines);
    this.told = box;
    this.place();
  }

  /** Put the read-out beside its box: in the window, since what scrolls would cut it off. */
  place() {
    const box = this.told, { tip, width } = this;
    const frame = this.root.getBoundingClientRect(), area = this.area.getBoundingClientRect();
    const left = Math.max(this.x(box.start), 0), right = Math.min(this.x(box.end), width);
    const x = area.left + (left + right) / 2 - tip.offsetWidth / 2, y = area.top + box.y + box.lane.shift;
    const below = y + ROW + 2 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(frame.left, Math.min(x, frame.right - tip.offsetWidth))}px`;
    tip.style.top = `${below ? y + ROW + 2 : y - tip.offsetHeight - 6}px`;
  }

  /** The box at a place of the drawing, or the nearest in the same row. */
  hit(x, y, reach) {
    let found = null, best = reach;
    for (const box of this.model.lanes.flatMap((lane) => lane.boxes)) {
      const top = box.y + box.lane.shift;
      if (y < top - 2 || y > top + ROW - 2) continue;
      const gap = Math.max(this.x(box.start) - x, x - this.x(box.end), 0);
      if (gap < best || (gap === best && found && box.busy < found.busy)) [found, best] = [box, gap];
    }
    return found;
  }

  /** The box above or below: of the neighbouring row, the one at the same time. */
  beside(box, way) {
    const rows = [...new Set(this.model.lanes.flatMap((l) => l.boxes).map((b) => b.y))].sort((a, b) => a - b);
    const y = rows[rows.indexOf(box.y) + way];
    const row = this.model.lanes.flatMap((l) => l.boxes).filter((b) => b.y === y);
    const gap = (b) => Math.max(b.start - box.start, box.start - b.end, 0);
    return row.reduce((near, b) => (near && gap(near) <= gap(b) ? near : b), null);
  }

  key(event) {
    const boxes = this.chosen?.lane.boxes ?? [], here = boxes.indexOf(this.chosen);
    const step = (by) => {
      if (event.shiftKey) return this.pan(by * 0.25);
      const lanes = this.model.lanes, next = here < 0
        ? lanes.find((lane) => lane.boxes.length).boxes.find((b) => b.end >= this.from) : boxes[here + by];
      if (next) this.choose(next, true);
    };
    const go = (box) => box && this.choose(box, true);
    const acts = {
      ArrowRight: () => step(1), ArrowLeft: () => step(-1),
      ArrowDown: () => (this.chosen ? go(this.beside(this.chosen, 1)) : step(1)),
      ArrowUp: () => (this.chosen ? go(this.beside(this.chosen, -1)) : step(1)),
      Home: () => go(boxes[0] ?? this.model.lanes[0].boxes[0]),
      End: () => go(boxes.at(-1) ?? this.model.lanes[0].boxes.at(-1)),
      "+": () => this.zoom(2), "=": () => this.zoom(2), "-": () => this.zoom(0.5),
      0: () => this.show(0, this.model.seconds), Escape: () => this.forget(),
      Enter: () => {
        if (!this.chosen) return;
        const { start, end } = this.chosen;
        this.show(start - (end - start), end + (end - start));
      },
    };
    const act = Object.hasOwn(acts, event.key) && acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const chosen = this.chosen;
    act();
    if (chosen && chosen === this.chosen) this.choose(chosen, false);  // its read-out, where it is now
  }

  listen() {
    const { area } = this, place = (event) => {
      const frame = area.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    area.addEventListener("keydown", (event) => this.key(event));
    area.addEventListener("blur", () => { this.tell(null); this.drawCursor(null); });
    area.addEventListener("wheel", (event) => {
      const zoomed = this.root.classList.contains("d2l-tl-zoomed");
      if (event.ctrlKey) this.zoom(Math.exp(-event.deltaY / 200), this.time(place(event)[0]));
      else if (zoomed && Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.width);
      else return;
      event.preventDefault();
    }, { passive: false });
    area.addEventListener("dblclick", (event) => this.zoom(3, this.time(place(event)[0])));
    area.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.pointers.set(event.pointerId, place(event));
      this.moved = 0;
    });
    area.addEventListener("pointermove", (event) => this.move(event, place(event)));
    const end = (event) => {
      const [x, y] = place(event), held = this.pointers.delete(event.pointerId);
      if (!held || event.type !== "pointerup" || this.moved > 5) return;
      const box = this.hit(x, y, event.pointerType === "touch" ? 16 : 3);
      if (box) this.choose(box, true);
      else this.forget();
    };
    area.addEventListener("pointerup", end);
    area.addEventListener("pointercancel", end);
    area.addEventListener("pointerleave", () => {
      if (this.pointers.size) return;
      if (this.chosen) this.choose(this.chosen, false);
      else this.forget();
    });
    addEventListener("scroll", () => this.tip.hidden || this.place(), { passive: true, capture: true });
    addEventListener("beforeprint", () => { this.show(0, this.model.seconds); this.draw(660); });
    addEventListener("afterprint", () => this.draw());
  }

  /** A pointer moves: one that is held pans, two zoom, a mouse that is free asks. */
  move(event, [x, y]) {
    const old = this.pointers.get(event.pointerId);
    if (!old) {
      if (event.pointerType === "touch") return;
      const box = this.hit(x, y, 3);
      this.tell(box ?? this.chosen);
      this.drawCursor(x);
      return;
    }
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.moved += Math.abs(x - old[0]) + (other ? 10 : 0);
    if (this.moved > 5) this.area.setPointerCapture(event.pointerId);
    if (other) {
      const before = Math.max(Math.abs(old[0] - other[0]), 10), after = Math.max(Math.abs(x - other[0]), 10);
      this.zoom(after / before, this.time((x + other[0]) / 2));
    } else if (this.moved > 5) this.pan((old[0] - x) / this.width);
    this.pointers.set(event.pointerId, [x, y]);
  }
}

function enhance() {
  const found = document.querySelectorAll("div.d2l-tl:not(.d2l-tl-live)");
  if (!found.length) return;
  document.head.append(html("style", {}, STYLE));
  found.forEach((root, i) => {
    try {
      root.d2l = new Widget(root, i + 1);
    } catch (error) {
      console.warn("a timeline stays as it is:", error);  // drawn by another version, perhaps
    }
  });
}

window.d2lTimeline = { read, summary, busyShare, ticks, enhance };
if (document.readyState === "loading") addEventListener("DOMContentLoaded", enhance);
else enhance();
})();
