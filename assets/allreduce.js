/* Star, ring and tree allreduce, step by step: what each GPU holds, what travels.

   Shown in every <div class="d2l-allreduce">. Tests compare all states with a reference:
   tests/book/test_allreduce_steps.py. */
(() => {
"use strict";
const SVG = "http://www.w3.org/2000/svg", WIDTH = 420, HEIGHT = 390, ABOVE = 20;
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"];
const KINDS = { star: say("Star"), ring: say("Ring"), tree: say("Tree") };

/** The steps of an algorithm on k GPUs: lists of moves {from, to, chunk, add} at the same time. */
function steps(kind, k) {
  const made = [], all = (phase, moves) => made.push({ phase, moves });
  const move = (from, to, chunk, add) => ({ from, to, chunk, add });
  if (kind === "star") {
    for (let i = 1; i < k; i++) all("reduce", [move(i, 0, 0, true)]);
    for (let i = 1; i < k; i++) all("broadcast", [move(0, i, 0, false)]);
  } else if (kind === "ring") {
    for (const add of [true, false]) for (let s = 0; s < k - 1; s++) {
      all(add ? "reduce-scatter" : "all-gather", Array.from({ length: k }, (_, i) =>
        move(i, (i + 1) % k, (i - s + (add ? 0 : 1) + 2 * k) % k, add)));
    }
  } else {
    const rounds = Math.ceil(Math.log2(k));
    const pairs = (d) => [...Array(k).keys()].filter((i) => i % (2 * d) === d).map((i) => [i, i - d]);
    for (let r = 0; r < rounds; r++) all("reduce", pairs(2 ** r).map(([a, b]) => move(a, b, 0, true)));
    for (let r = rounds - 1; r >= 0; r--) {
      all("broadcast", pairs(2 ** r).map(([a, b]) => move(b, a, 0, false)));
    }
  }
  return made;
}

/** What each GPU holds of each chunk after each step: bit t is set if GPU t's part is in it. */
function states(kind, k) {
  const chunks = kind === "ring" ? k : 1;
  let now = Array.from({ length: k }, (_, i) => Array(chunks).fill(1 << i));
  const found = [now];
  for (const { moves } of steps(kind, k)) {
    const next = now.map((row) => [...row]);
    for (const { from, to, chunk, add } of moves) {
      next[to][chunk] = add ? next[to][chunk] | now[from][chunk] : now[from][chunk];
    }
    found.push((now = next));
  }
  return found;
}

/** How long it takes, in times that all N bytes need over one link. */
function cost(kind, k) {
  return steps(kind, k).length / (kind === "ring" ? k : 1);
}

function places(kind, k) {
  const around = (i, n) => {
    const angle = 2 * Math.PI * i / n - Math.PI / 2;
    return [WIDTH / 2 + 168 * Math.cos(angle), HEIGHT / 2 - 4 + 150 * Math.sin(angle)];
  };
  if (kind === "ring") return [...Array(k).keys()].map((i) => around(i, k));
  if (kind === "star") {
    return [...Array(k).keys()].map((i) => (i ? around(i - 1, k - 1) : [WIDTH / 2, HEIGHT / 2 - 4]));
  }
  const rounds = Math.ceil(Math.log2(k)), level = (i) => (i ? Math.log2(i & -i) : rounds);
  return [...Array(k).keys()].map((i) =>
    [WIDTH * (i + 0.5) / k, 48 + (HEIGHT - 100) * (rounds - level(i)) / rounds]);
}

/** How wide a GPU is drawn: the fewer there are, the more room has each. */
const frame = (kind, k) => (k <= 4 ? 76 : k <= 6 && kind !== "tree" ? 58 : 48);

/** Items in a sentence. */
function list(items) {
  return items.reduce((before, item, i) => (i < items.length - 1 ? say("{before}, {item}", { before, item })
    : say("{before} and {item}", { before, item })));
}

/** A step in words. */
function words(kind, move) {
  if (kind === "ring") {
    return move.add ? say("GPU {from} sends chunk {chunk} to GPU {to}, which adds it", move)
      : say("GPU {from} sends chunk {chunk} to GPU {to}, which keeps it", move);
  }
  return move.add ? say("GPU {from} sends its buffer to GPU {to}, which adds it", move)
    : say("GPU {from} sends its buffer to GPU {to}, which keeps it", move);
}

/** What all GPUs hold, in words. */
function holdings(state, k) {
  const full = 2 ** k - 1, parts = (bits) => {
    const gpus = list([...Array(k).keys()].filter((t) => bits >> t & 1));
    if (bits === full) return say("the whole sum");
    return bits & (bits - 1) ? say("the parts of GPU {gpus}", { gpus }) : say("the part of GPU {gpus}", { gpus });
  };
  return state.map((row, gpu) => {
    const same = row.every((bits) => bits === row[0]);
    const each = (bits, chunk) => say("of chunk {chunk} {parts}", { chunk, parts: parts(bits) });
    return say("GPU {gpu} holds {what}.", { gpu, what: same ? parts(row[0]) : list(row.map(each)) });
  }).join(" ");
}

const html = (tag, attributes, ...children) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
};
const svg = (tag, attributes, text) => {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

class Steps {
  constructor(root) {
    this.kind = root.dataset.kind ?? "ring";
    this.k = 4;
    this.at = 0;
    const choose = (label, options, value, change) => {
      const select = html("select", { onchange: () => change(select.value) });
      for (const [v, text] of options) select.append(html("option", { value: v, selected: v === value }, text));
      return html("label", {}, `${label} `, select);
    };
    const restart = () => { this.at = 0; this.draw(); };
    const kinds = choose(say("Algorithm"), Object.entries(KINDS), this.kind, (v) => { this.kind = v; restart(); });
    const counts = choose(say("GPUs"), [2, 3, 4, 5, 6, 7, 8].map((k) => [k, k]), this.k, (v) => { this.k = Number(v); restart(); });
    const button = (text, act) => html("button", { type: "button", onclick: act }, text);
    this.back = button(say("Back"), () => this.go(-1));
    this.next = button(say("Next"), () => this.go(1));
    this.first = button(say("Start"), () => this.go(-99));
    this.status = html("p", { className: "d2l-status" });
    this.status.setAttribute("role", "status");
    this.picture = svg("svg", { viewBox: `0 ${-ABOVE} ${WIDTH} ${HEIGHT + ABOVE}`, role: "img" });
    this.cost = html("p", { className: "d2l-cost" });
    const bar = html("div", { className: "d2l-controls" }, kinds, counts, this.first, this.back, this.next);
    root.replaceChildren(bar, this.status, this.picture, this.cost);
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", say("Allreduce, step by step"));
    root.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by || event.target.tagName === "SELECT" || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      this.go(by);
    });
    this.draw();
  }

  go(by) {
    this.at = Math.min(Math.max(this.at + by, 0), steps(this.kind, this.k).length);
    this.draw();
  }

  draw() {
    const { kind, k, at } = this, all = steps(kind, k), state = states(kind, k)[at];
    const step = all[at - 1], where = places(kind, k);
    this.status.textContent = this.told(step, at, all.length);
    for (const [button, off] of [[this.back, !at], [this.first, !at], [this.next, at === all.length]]) {
      button.setAttribute("aria-disabled", off);
    }
    this.picture.setAttribute("aria-label", holdings(state, k));
    this.picture.replaceChildren(this.arrowhead());
    if (step) for (const move of step.moves) this.arrow(move, where);
    state.forEach((row, i) => this.gpu(i, row, where[i], step));
    const n = Number(cost(kind, k).toFixed(2)), values = { kind: KINDS[kind], k, steps: all.length, n };
    const part = kind === "ring"
      ? say("{kind}, {k} GPUs: {steps} steps, each with 1/{k} of the bytes.", values)
      : say("{kind}, {k} GPUs: {steps} steps, each with all bytes.", values);
    const long = n === 1 ? say("Latency aside, that takes as long as sending all bytes 1 time over one link.")
      : say("Latency aside, that takes as long as sending all bytes {n} times over one link.", values);
    this.cost.textContent = `${part} ${long}`;
  }

  /** What has just happened. */
  told(step, at, count) {
    const values = { step: at, count, k: this.k, phase: step?.phase };
    if (!step) {
      return this.kind === "ring"
        ? say("Before step 1 of {count}: every GPU holds its own gradient, cut into {k} chunks.", values)
        : say("Before step 1 of {count}: every GPU holds its own gradient.", values);
    }
    const what = this.phrase(step);
    const said = say("Step {step} of {count}, {phase}: {what}.", { ...values, what });
    return at === count ? `${said} ${say("Now every GPU holds the whole sum.")}` : said;
  }

  phrase({ moves }) {
    if (this.kind !== "ring" || moves.length < 3) {
      return moves.map((move) => words(this.kind, move))
        .reduce((before, item) => say("{before}; {item}", { before, item }));
    }
    const example = words("ring", moves[0]);
    return moves[0].add
      ? say("each GPU sends one chunk to the next, which adds it. {example}, and so on round the ring", { example })
      : say("each GPU sends one chunk to the next, which keeps it. {example}, and so on round the ring", { example });
  }

  arrowhead() {
    const defs = svg("defs", {}), marker = svg("marker", { id: "d2l-head", viewBox: "0 0 8 8", refX: 7, refY: 4,
      markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" });
    marker.append(svg("path", { d: "M0 0L8 4L0 8z", class: "d2l-head" }));
    defs.append(marker);
    return defs;
  }

  /** An arrow between two GPUs, from border to border; what it does stands beside it. */
  arrow({ from, to, chunk, add }, where) {
    const [x, y] = where[from], [u, v] = where[to], length = Math.hypot(u - x, v - y);
    const dx = (u - x) / length, dy = (v - y) / length;
    const half = frame(this.kind, this.k) / 2, gap = Math.min((half + 7) / Math.abs(dx), (half + 15) / Math.abs(dy));  // frame and name
    const side = this.k === 2 && this.kind === "ring" ? 7 : 0;  // one there, one back
    const at = (way) => [x + dx * way - dy * side, y - 8 + dy * way + dx * side].map((n) => n.toFixed(1));
    this.picture.append(svg("path", { d: `M${at(gap)}L${at(length - gap)}`,
      class: `d2l-arrow${add ? "" : " d2l-copy"}`, "marker-end": "url(#d2l-head)" }));
    const label = add ? say("add") : say("copy"), text = this.kind === "ring" ? `${label} ${chunk}` : label;
    const way = this.kind === "ring" ? -1 : 1;  // inside the ring there is room
    const [p, q] = at(length / 2).map(Number), right = way * dy;
    const anchor = right > 0.5 ? "start" : right < -0.5 ? "end" : "middle";
    this.picture.append(svg("text", { x: p + 8 * right, y: q + 4 - 14 * way * dx, class: "d2l-word",
      "text-anchor": anchor }, text));
  }

  gpu(i, row, [x, y], step) {
    const { k } = this, side = frame(this.kind, k), tall = side / k, wide = side / row.length, full = 2 ** k - 1;
    const left = x - side / 2, top = y - side / 2;
    const group = svg("g", { class: "d2l-gpu" });
    group.append(svg("rect", { x: left - 1.5, y: top - 1.5, width: side + 3, height: side + 3, class: "d2l-buffer" }));
    row.forEach((bits, c) => {
      for (let t = 0; t < k; t++) {
        if (!(bits >> t & 1)) continue;
        group.append(svg("rect", { x: left + c * wide + 0.5, y: top + t * tall + 0.5, width: wide - 1,
          height: tall - 1, fill: COLOURS[t], "data-gpu": i, "data-chunk": c, "data-term": t }));
      }
    });
    const done = row.every((bits) => bits === full), got = step?.moves.some((move) => move.to === i);
    group.append(svg("text", { x, y: top - 6, class: `d2l-name${got ? " d2l-got" : ""}` }, `GPU ${i}${done ? " ✓" : ""}`));
    this.picture.append(group);
  }
}

globalThis.d2lAllreduce = { steps, states, cost, holdings };
const start = () => document.querySelectorAll("div.d2l-allreduce").forEach((root) => new Steps(root));
if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();
})();
