/* Texts: names, the summary, values of the axis. */
/** In the language of the page (assets/words.js). */
const say = window.say ?? ((text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]));

/** Shorten a profiler's name, as kinds.py does. */
function short(name) {
  name = name.replace(/^autograd::engine::evaluate_function: /, "");
  if (!/::|</.test(name)) return name;
  name = name.replace(/^void /, "").replaceAll("(anonymous namespace)", "");
  return name.split(/[<(]/)[0].split("::").pop() || name;
}

/** The share of the time in which a lane is busy. */
function busyShare(lane, seconds) {
  let reached = 0, busy = 0;
  for (const box of lane.boxes) {
    const from = Math.max(box.start, reached), open = Math.max(0, box.end - from);
    busy += box.count > 1 ? Math.min(open, box.busy) : open;
    reached = Math.max(reached, box.end);
  }
  return busy / seconds;
}

const KEYS = [say("← →: from span to span"), say("↑ ↓: from lane to lane"), say("+ −: zoom"),
  say("Shift ← →: move the view"), say("Enter: zoom to the span"), say("0: show all"), say("Esc: forget the span")];

/** What screen readers say. */
function summary(model) {
  const shares = model.lanes.map((lane) => [busyShare(lane, model.seconds), lane]);
  shares.sort((a, b) => b[0] - a[0]);
  const lanes = shares.slice(0, 4).map(([share, lane]) => {
    const kinds = {};
    for (const box of lane.boxes) kinds[box.kind] = (kinds[box.kind] ?? 0) + box.busy;
    const kind = Object.keys(kinds).sort((a, b) => kinds[b] - kinds[a])[0];
    const count = lane.boxes.reduce((n, box) => n + box.count, 0);
    return say("{lane}: busy {percent} percent of the time, {count} spans, mostly {kind}",
      { lane: lane.name, percent: Math.round(100 * share), count, kind });
  });
  return model.said + say("{title}, {lanes} lanes. The busiest: {busiest}. Arrow keys move from span to span, plus and minus zoom, "
    + "0 shows all, Shift and an arrow key move the view, Enter zooms to a span, ? lists the keys.",
  { title: inWords(model.title), lanes: model.lanes.length, busiest: lanes.join("; ") });
}

/** At most `most` round values of an axis, and their number of decimals. */
function ticks(low, high, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => (high - low) / s <= most);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) values.push(i * step);
  return { values, decimals };
}
