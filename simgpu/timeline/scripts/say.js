/* Texts: names, the summary for screen readers, the values of the axis. */
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

const KEYS = [["← →", "from span to span"], ["↑ ↓", "from lane to lane"], ["+ −", "zoom"],
  ["Shift ← →", "move the view"], ["Enter", "zoom to the span"], ["0", "show all"], ["Esc", "forget the span"]];

/** The summary for screen readers. */
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
    + "0 shows all, Shift and an arrow key move the view, Enter zooms to a span, ? lists the keys.";
}

/** At most `most` round values of an axis from low to high, and their number of decimals. */
function ticks(low, high, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => (high - low) / s <= most);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) values.push(i * step);
  return { values, decimals };
}
