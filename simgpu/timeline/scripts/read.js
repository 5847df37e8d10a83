/* Read a static drawing: its lanes, and its boxes with their times. */
const POWER = { n: 1e-9, "µ": 1e-6, m: 1e-3, "": 1 };
const TIMES = /^at (\S+) ([nµm]?)s, lasts (\S+) ([nµm]?)s$/;

const numeral = (text) => Number(text.replace(/,/g, ""));

/** The interval of values that round to this number of three digits, in seconds. */
function written(text, prefix) {
  const value = numeral(text), half = value && 0.5 * 10 ** (Math.floor(Math.log10(value)) - 2);
  return [value - half, value + half].map((x) => x * POWER[prefix]);
}

/** The intersection of two intervals; the second if they are disjoint. */
function both(a, b) {
  const low = Math.max(a[0], b[0]), high = Math.min(a[1], b[1]);
  return low <= high * (1 + 1e-9) ? [low, high] : b;
}

const middle = (interval) => (interval[0] + interval[1]) / 2;

/** One box: its name, kind, number of spans, start and end (seconds of the axis). */
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
    group, rect, text: group.querySelector("text"), title, name: inWords(first), count,
    when: figures(say("starts at {start}, lasts {time}", { start: `${start} ${before}s`, time: `${lasts} ${prefix}s` })),
    more: lines.slice(at + 1).map((line) => figures(inWords(line))),
    kind: fill ? inWords(kinds[fill[1]]) : "", ink: null,
    start: begin, end: Math.min(begin + middle(extent), width * scale),
    busy: numeral(lasts) * POWER[prefix], y: Number(rect.getAttribute("y")),
  };
}

/** Read a static timeline. */
function read(root) {
  const plot = root.querySelector(".d2l-tl-scroll > svg");
  const names = [...root.querySelectorAll(".d2l-tl-body > svg > text")];
  const label = (text) => [...text.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("");
  const words = plot.getAttribute("aria-label"), width = Number(plot.getAttribute("width"));
  const from = words.search(/Timeline of \d+ spans/);  // before it: what a page says of the picture
  const said = words.slice(0, from), title = words.slice(from);
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
  return { plot, said, title, spans: Number(spans), seconds, lanes, axis,
    perUnit: POWER[/\(([nµm]?)s\)$/.exec(axis)[1]] };
}
