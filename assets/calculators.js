/* The calculators: fields, answers and pictures. The formulas are in model.js and memory.js.

   Shown in every <div class="d2l-calculator" data-of="step | scaling | memory | compare">. */
(() => {
"use strict";
const P = globalThis.d2lPresets, model = globalThis.d2lModel, memory = globalThis.d2lMemory;
const published = globalThis.d2lPublished, near = globalThis.d2lNearest;
const SVG = "http://www.w3.org/2000/svg", MIB = 2 ** 20;
const COLOURS = { forward: "#0072B2", backward: "#E69F00", bucket: "#56B4E9", optimizer: "#009E73",
  "all-reduce": "#F0E442" };
const KEY = { forward: say("forward"), backward: say("backward"), bucket: say("in and out of buckets"),
  optimizer: say("optimiser"), "all-reduce": say("all-reduce") };
const PARTS = { weights: [say("weights {size}"), "#0072B2"], states: [say("optimiser's states {size}"), "#009E73"],
  buckets: [say("buckets of DDP {size}"), "#56B4E9"], gradients: [say("gradients {size}"), "#E69F00"],
  activations: [say("activations {size}"), "#CC79A7"], gathered: [say("weights gathered or cast {size}"), "#F0E442"],
  work: [say("gradients so far and work space {size}"), "#D55E00"], space: [say("work space {size}"), "#D55E00"] };

const html = (tag, attributes, ...children) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
};
const svg = (tag, attributes, ...children) => {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

/** A number with three digits. */
function number(value) {
  const rounded = Number(value.toPrecision(3));
  return rounded >= 1000 ? rounded.toLocaleString("en") : String(rounded);
}
function quantity(value, unit) {
  const prefixes = unit === "s" ? [["", 1], ["m", 1e-3], ["µ", 1e-6]]
    : [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]];
  const [prefix, scale] = prefixes.find(([, s]) => value >= 0.9995 * s) ?? prefixes.at(-1);
  return `${number(value / scale)} ${prefix}${unit}`;
}
/** Bytes of memory, as GPUs' makers count them. */
function memorySize(bytes) {
  return bytes >= 0.9995 * 2 ** 30 ? `${number(bytes / 2 ** 30)} GiB` : `${number(bytes / MIB)} MiB`;
}
const percent = (share) => `${Math.round(100 * share)} %`;

/* Fields */
const LINKS = { pcie: "PCIe ", nvlink: "NVLink ", bridge112: "NVLink 112.5 GB/s", bridge600: "NVLink 600 GB/s",
  400: "400 GB/s", c2c: "NVLink-C2C", edr: "InfiniBand EDR", hdr: "InfiniBand HDR", ndr: "InfiniBand NDR",
  efa: "EFA", hdr4: say("InfiniBand HDR, 4 cards"), ethernet: "Ethernet " };
/** A name as people write it: nvlink3 is NVLink 3. */
function proper(name) {
  const [base, ...settings] = name.split(":");
  const [, word, number, rest] = /^([a-z]+)(\d*)(?:_(\w+))?$/.exec(base);
  const more = [...(rest ? [LINKS[rest] ?? rest] : []), ...settings.map((text) => text.replace(/^(\d+)x/, "$1 × "))];
  return [LINKS[base] ?? (LINKS[word] ?? word) + number, ...more].join(", ");
}
const names = (table) => Object.entries(table).map(([key, value]) => [key, value.name ?? proper(key)]);
const FAMILIES = [say("Data centre, NVLink"), say("Data centre, PCIe"), say("Workstation"), "GeForce"];
const gpus = P.families.map((cards, i) => [FAMILIES[i], cards.map((card) => [card, P.gpus[card].name])]);
const FIELDS = {
  model: [say("Model"), "", [["", say("my own numbers")], ...names(P.models)]],
  width: [say("Width of a layer"), 4096, 64, 65536], layers: [say("Layers"), 12, 3, 2000],
  batch: [say("Batch of each GPU"), 512, 1, 1048576], together: [say("Batch"), 4096, 1, 1048576],
  dtype: [say("Number format"), "bfloat16", [["float32", "float32"], ["tf32", say("float32 as TF32")],
    ["bfloat16", "bfloat16"], ["float16", "float16"]]],
  gpu: ["GPU", "a100", gpus], link: [say("Link in a node"), "nvlink3", names(P.links)],
  perNode: [say("GPUs in a node"), 8, 1, 8], nodes: [say("Nodes"), 1, 1, 128],
  network: [say("Network of nodes"), "hdr", names(P.networks)],
  bucket: [say("Bucket (MiB)"), 25, 0.01, 10000],
  gpus: [say("GPUs"), 8, 1, 1024], many: [say("GPUs"), 8, 1, 1000000],
  // Chapters that show another calculator do not load the published runs.
  trained: [say("Model"), "llama3-8b", [["", say("my own sizes")], ...names(published?.models ?? {})]],
  billions: [say("Parameters (billion)"), 8.03, 0.001, 100000],
  active: [say("Used for a token (billion)"), 8.03, 0.001, 100000],
  sequence: [say("Tokens of a sequence"), 8192, 1, 100000000],
  rate: [say("Tokens a second in all"), 60000, 0.001, 1e12],
  stage: [say("Sharding"), "0", [["0", say("none: DDP")], ["1", "ZeRO 1"], ["2", "ZeRO 2"], ["3", "ZeRO 3, FSDP"]]],
  optimizer: [say("Optimiser"), "adamw", [["sgd", "SGD"], ["momentum", say("SGD, momentum")], ["adamw", "AdamW"]]],
  precision: [say("Precision"), "float32", [["float32", "float32"], ["mixed", say("mixed")],
    ["bfloat16", say("all bfloat16")]]],
};
const USES = {
  step: ["model", "width", "layers", "batch", "dtype", "gpu", "link", "perNode", "nodes", "network", "bucket"],
  scaling: ["model", "width", "layers", "together", "dtype", "gpu", "link", "network", "bucket"],
  memory: ["model", "width", "layers", "batch", "gpus", "gpu", "stage", "optimizer", "precision"],
  compare: ["trained", "billions", "active", "many", "gpu", "sequence", "rate"],
};
const TITLES = { step: say("Time of a step"), scaling: say("Scaling"), memory: say("Memory"),
  compare: say("Is my run reasonable?") };
const ANY = ["bucket", "billions", "active", "rate"];  // need not be whole numbers
const OWN = { compare: { gpu: "h100" }, memory: { width: 16384, layers: 24, batch: 4096, stage: "3", precision: "mixed" } };

const usual = (kind, name) => OWN[kind]?.[name] ?? FIELDS[name][1];
const linked = (kind, name) => new URLSearchParams(location.search).get(`${kind}.${name}`);

function field(kind, name, change) {
  const [label, , ...rest] = FIELDS[name], value = linked(kind, name) ?? usual(kind, name);
  let made;
  if (Array.isArray(rest[0])) {
    const option = ([v, text]) => Array.isArray(text) ? html("optgroup", { label: v }, ...text.map(option))
      : html("option", { value: v, selected: v === value }, text);
    made = html("select", { name, onchange: change }, ...rest[0].map(option));
  } else {
    const [min, max] = rest, step = ANY.includes(name) ? "any" : 1;
    made = html("input", { name, type: "number", value, min, max, step, required: true, oninput: change });
  }
  return html("label", {}, label, made);
}

/* What a reader has entered: one set for the calculators of all pages, kept in this browser; nothing is sent. */
const KEPT = "d2l-calculators", SAME = { trained: "model", many: "gpus" };
const SIZES = ["width", "layers", "billions", "active", "sequence"];  // a model has them
const shown = new Set();  // of each calculator, what shows the set's values or its own

function entered() {
  try { return JSON.parse(localStorage.getItem(KEPT)) ?? {}; } catch { return {}; }
}

function keep(set) {
  try { localStorage.setItem(KEPT, JSON.stringify(set)); } catch { /* this page alone has it, then */ }
}

/** The set with the values of a calculator; `changed` is the field that a reader has changed. */
function withValues(before, input, changed) {
  const set = { ...before };
  if (["model", "trained", ...SIZES].includes(changed)) for (const name of ["model", ...SIZES]) delete set[name];
  if (changed === "gpu") delete set.link;
  for (const [name, value] of Object.entries(input)) if (value !== "") set[SAME[name] ?? name] = value;
  const count = input.gpus ?? input.many;
  if (input.nodes) set.gpus = input.perNode * input.nodes;
  else if (count <= 8) Object.assign(set, { perNode: count, nodes: 1 });
  else if (count % 8 === 0) Object.assign(set, { perNode: 8, nodes: count / 8 });
  return set;
}

/** Show the set's values in the fields of a calculator. */
function adopt(elements, set) {
  const own = elements.model ?? elements.trained, has = (name) => set[name] !== undefined;
  for (const e of elements) {
    const value = set[SAME[e.name] ?? e.name], old = e.value;
    if (value === undefined) continue;
    e.value = value;
    if (!e.value || !e.checkValidity()) e.value = old;  // another calculator's choice
  }
  if (!has("model") && SIZES.some((name) => has(name) && elements[name])) own.value = "";
  if (has("model") && !SIZES.some((name) => has(name) && elements[name])) fillIn(elements, own.name);
  if (has("gpu") && !has("link") && elements.link) elements.link.value = P.gpus[set.gpu].link;
}

/* Answers */
const answer = (items) => html("dl", { className: "d2l-answer" },
  ...items.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value))));
const key = (items) => html("ul", { className: "d2l-key" }, ...items.map(([text, colour]) => {
  const patch = html("i", { className: colour ? "" : "d2l-dashed" });
  if (colour) patch.style.background = colour;
  return html("li", {}, patch, text);
}));
const problem = (words) => html("p", { className: "d2l-problem" }, words);
const text = (x, y, words, anchor = "start") => svg("text", { x, y, "text-anchor": anchor }, words);

/** Two lanes: what the GPU computes, what travels. Neighbours of one kind are drawn as one. */
function lanes(found, room) {
  const scale = room / found.seconds, parts = [], drawn = [];
  for (const span of found.spans) {
    const last = drawn.findLast((d) => d.lane === span.lane);
    if (last && last.kind === span.kind && span.start - last.end < 1 / scale) last.end = span.end;
    else drawn.push({ ...span });
  }
  const rows = [["compute", 16], ["comm", 58]];
  for (const [lane, y] of rows) {
    parts.push(text(0, y - 4, lane === "compute" ? say("GPU computes") : say("All-reduce")));
    parts.push(svg("rect", { x: 0, y, width: room, height: 20, class: "d2l-ground" }));
    for (const { kind, start, end } of drawn.filter((d) => d.lane === lane)) {
      parts.push(svg("rect", { x: (start * scale).toFixed(1), y, height: 20, fill: COLOURS[kind],
        width: Math.max((end - start) * scale, 0.7).toFixed(1) }));
    }
  }
  parts.push(text(0, 95, "0"), text(room, 95, quantity(found.seconds, "s"), "end"));
  return svg("svg", { viewBox: `0 0 ${room} 100`, "aria-hidden": "true" }, ...parts);
}

function showStep(input, room) {
  input.bucket *= MIB;
  const ranks = input.perNode * input.nodes, found = model.step(input);
  const alone = model.step({ ...input, perNode: 1, nodes: 1 }).seconds;
  const hidden = ranks > 1 ? percent(1 - found.exposed / found.communicates) : "-";
  return [
    answer([
      [say("a step (simulated)"), quantity(found.seconds, "s")],
      [say("efficiency"), percent(alone / found.seconds)],
      [say("samples a second, all GPUs"), number(ranks * input.batch / found.seconds)],
      [say("all-reduce in a step"), ranks > 1 ? quantity(found.communicates, "s") : say("none")],
      [say("of it hidden"), hidden],
    ]),
    lanes(found, room),
    key(Object.entries(KEY).map(([kind, name]) => [name, COLOURS[kind]])),
  ];
}

const COUNTS = [1, 2, 4, 8, 16, 32, 64];

function showScaling(input, room) {
  input.bucket *= MIB;
  const shown = { ...input, batch: input.together };
  const strong = model.scaling(shown, COUNTS, true), weak = model.scaling(shown, COUNTS, false);
  const height = 218, left = 30, base = 182, top = 22;
  const x = (k) => left + (room - left - 14) * Math.log2(k) / 6;
  const y = (s) => base - (base - top) * Math.log2(Math.max(s, 0.5) * 2) / 7;
  const parts = [];
  for (const k of COUNTS) {
    parts.push(svg("path", { class: "d2l-rule", d: `M${x(k)} ${top}V${base}` }), text(x(k), base + 15, k, "middle"));
    parts.push(svg("path", { class: "d2l-rule", d: `M${left} ${y(k)}H${room - 14}` }), text(left - 5, y(k) + 4, k, "end"));
  }
  for (const [title, ...place] of [[say("times as fast as one GPU"), 0, 11], [say("GPUs"), (left + room - 14) / 2, base + 32, "middle"]]) {
    const words = text(...place.slice(0, 2), title, place[2]);
    words.setAttribute("class", "d2l-title");
    parts.push(words);
  }
  parts.push(svg("path", { class: "d2l-limit", d: `M${x(1)} ${y(1)}L${x(64)} ${y(64)}`, fill: "none" }));
  for (const [rows, colour] of [[weak, "#0072B2"], [strong, "#D55E00"]]) {
    const line = rows.map(({ k, speedup }) => `${x(k)} ${y(speedup)}`).join("L");
    parts.push(svg("path", { class: "d2l-line", stroke: colour, d: `M${line}` }));
    for (const { k, speedup } of rows) parts.push(svg("circle", { cx: x(k), cy: y(speedup), r: 3.5, fill: colour }));
  }
  const cell = (rows, i) => [quantity(rows[i].seconds, "s"), number(rows[i].speedup)];
  const head = [say("GPUs"), say("weak: step"), say("speed-up"), say("strong: step"), say("speed-up")];
  const table = html("table", {}, html("thead", {}, html("tr", {}, ...head.map((h) => html("th", { scope: "col" }, h)))),
    html("tbody", {}, ...COUNTS.map((k, i) => html("tr", {},
      html("th", { scope: "row" }, String(k)), ...[...cell(weak, i), ...cell(strong, i)].map((c) => html("td", {}, c))))));
  return [
    svg("svg", { viewBox: `0 0 ${room} ${height}`, "aria-hidden": "true" }, ...parts),
    key([[say("weak: every GPU has the batch"), "#0072B2"], [say("strong: the GPUs share it"), "#D55E00"],
      [say("dashed: as many times as there are GPUs"), null]]),
    table,
  ];
}

const PEAK = { step: say("The peak is in the optimiser's step."), end: say("The peak is at the end of the backward pass."),
  turn: say("The peak is where the forward pass turns into the backward pass.") };

/** A number of parameters in words. */
function count(parameters) {
  if (parameters >= 0.9995e12) return quantity(parameters, "");
  if (parameters >= 0.9995e9) return say("{n} billion", { n: number(parameters / 1e9) });
  return parameters >= 0.9995e6 ? say("{n} million", { n: number(parameters / 1e6) }) : quantity(parameters, "").trim();
}

function showMemory(input, room) {
  const found = memory({ ...input, stage: Number(input.stage) }), capacity = P.gpus[input.gpu].memory;
  const scale = (room - 2) / Math.max(found.peak, capacity), shown = [], parts = [];
  let x = 0;
  for (const [part, bytes] of Object.entries(found.parts)) {
    if (bytes <= 0) continue;
    parts.push(svg("rect", { x, y: 20, width: bytes * scale, height: 28, fill: PARTS[part][1] }));
    const [said, colour] = PARTS[part === "work" && "gradients" in found.parts ? "space" : part];
    shown.push([said.replace("{size}", memorySize(bytes)), colour]);
    x += bytes * scale;
  }
  const limit = capacity * scale;
  parts.unshift(svg("rect", { x: 0, y: 20, width: limit, height: 28, class: "d2l-ground" }));
  parts.push(svg("path", { d: `M${limit} 14V54`, class: "d2l-limit" }));
  const { name: gpu } = P.gpus[input.gpu];
  parts.push(text(Math.min(limit, room - 2), 11, `${gpu}: ${memorySize(capacity)}`, "end"));
  return [
    answer([
      [say("peak of each GPU"), memorySize(found.peak)],
      [/^([AH8]\d|RTX)/.test(gpu) ? say("on an {gpu}", { gpu }) : say("on a {gpu}", { gpu }),
        found.peak <= capacity ? say("fits") : say("does not fit")],
      [say("parameters"), count(found.parameters)],
      [say("bytes a parameter"), number(found.peak / found.parameters)],
    ]),
    html("p", {}, PEAK[found.when]),
    svg("svg", { viewBox: `0 0 ${room} 58`, "aria-hidden": "true" }, ...parts),
    key(shown),
  ];
}

function showRow(row) {
  const values = { rate: number(row.tokens_per_second_per_gpu), mfu: row.mfu_percent && number(row.mfu_percent),
    size: number(row.billions), gpus: row.gpus, gpu: row.gpu, sequence: row.sequence.toLocaleString("en"), what: row.what };
  const reached = row.mfu_percent === null ? say("{rate} tokens/s a GPU", values)
    : say("{rate} tokens/s a GPU, MFU {mfu} %", values);
  const run = row.experts ? say(": {size} billion, experts, {gpus} × {gpu}, sequences of {sequence}; {what}.", values)
    : say(": {size} billion, {gpus} × {gpu}, sequences of {sequence}; {what}.", values);
  return html("li", {}, html("strong", {}, reached), `${run} `,
    html("a", { href: row.reference }, row.source));
}

function showCompare(input) {
  if (input.active > input.billions) return [problem(say("Used for a token (billion): give at most all parameters."))];
  const run = { ...input, model: input.trained, gpus: input.many, experts: input.active < input.billions };
  const rows = near.nearest(run), close = rows.filter((row) => row.distance <= published.near);
  const share = near.mfu(run);
  return [
    answer([
      [say("MFU of your run"), percent(share)],
      [say("tokens a second, each GPU"), number(run.rate / run.gpus)],
      [say("each GPU of the nearest published run"), number(rows[0].tokens_per_second_per_gpu)],
    ]),
    ...(share > 1 ? [problem(say("More than these GPUs can compute: check the numbers."))] : []),
    html("p", {}, close.length ? say("The nearest published runs:") : say("No published run is near. The nearest ones:")),
    html("ul", {}, ...(close.length ? close : rows).map(showRow)),
    html("p", {}, say("The command that simulates it (add how the work is split):")), html("pre", {}, near.command(run)),
  ];
}

const SHOW = { step: showStep, scaling: showScaling, memory: showMemory, compare: showCompare };

/** Fill in the sizes of a chosen model; numbers that a reader changes are no longer that model's. */
function fillIn(elements, changed) {
  const { billions, active } = elements;
  if (changed === "billions" && active.value === billions.dataset.last) active.value = billions.value; // no experts
  const own = elements.model ?? elements.trained, sizes = elements.model ? ["width", "layers"] : ["billions", "active"];
  if (changed === own.name) {
    const chosen = (elements.model ? P : published).models[own.value];
    for (const name of chosen ? [...sizes, ...(elements.sequence ? ["sequence"] : [])] : []) {
      elements[name].value = Number(chosen[name].toPrecision(6));
    }
  } else if (sizes.includes(changed)) own.value = "";
  if (billions) billions.dataset.last = billions.value;
}

/** Keep a set, or none, and show it in all calculators but the one that has made it. */
function share(set, maker) {
  keep(set);
  for (const take of shown) if (take !== maker) take(set);
}

/** Show one calculator in an element. */
function show(root) {
  const kind = root.dataset.of, output = html("div", {});
  const calculate = (event) => {
    fillIn(form.elements, event?.target?.name);
    if (event?.target?.name === "gpu" && form.elements.link) form.elements.link.value = P.gpus[event.target.value].link;
    const bad = [...form.elements].find((e) => e.name && !e.checkValidity());
    if (bad) {
      const [label, , min, max] = FIELDS[bad.name];
      const values = { label, min, max: max.toLocaleString("en") };
      output.replaceChildren(problem(ANY.includes(bad.name) ? say("{label}: give a number from {min} to {max}.", values)
        : say("{label}: give a whole number from {min} to {max}.", values)));
      return;
    }
    const input = {};
    for (const e of form.elements) if (e.name) input[e.name] = e.tagName === "SELECT" ? e.value : Number(e.value);
    if (event) share(withValues(entered(), input, event.target.name), take);
    const setting = new URLSearchParams(Object.entries(input).map(([name, value]) => [`${kind}.${name}`, value]));
    link.href = `?${setting}${root.id ? `#${root.id}` : ""}`;
    // Drawn in the pixels of the page, so that letters keep their size on phones.
    output.replaceChildren(...SHOW[kind](input, Math.max(root.clientWidth - 34, 220)));
  };
  const take = (set) => {
    if (set) adopt(form.elements, set);
    else for (const e of form.elements) e.value = usual(kind, e.name);
    calculate();
  };
  const form = html("form", { className: "d2l-fields", onsubmit: (event) => event.preventDefault() },
    ...USES[kind].map((name) => field(kind, name, calculate)));
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", TITLES[kind]);
  output.className = "d2l-output";
  output.setAttribute("aria-live", "polite");
  const link = html("a", { className: "d2l-share", title: say("Opens this page with these numbers") },
    say("Link to this setting"));
  const reset = html("button", { type: "button", className: "d2l-share", onclick: () => share(null) },
    say("Back to the page's numbers"));
  root.id ||= `calculator-${kind}`;
  root.replaceChildren(form, output, html("p", {}, link, " ", reset));
  shown.add(take);
  if (USES[kind].some((name) => linked(kind, name) !== null)) calculate();
  else take(entered());
  let before = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === before) return;
    before = root.clientWidth;
    requestAnimationFrame(() => calculate());  // not with its time in place of an event
  }).observe(root);
}

globalThis.d2lCalculators = { FIELDS, USES, quantity };
const start = () => document.querySelectorAll("div.d2l-calculator").forEach(show);
if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();
})();
