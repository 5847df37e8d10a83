/* The visible part of the time, and the selected box. */
class View extends Picture {
  show(from, to) {
    const all = this.model.seconds, length = Math.min(Math.max(to - from, all / MOST), all);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - length / 2, 0), all - length);
    this.to = this.from + length;
    this.drawCursor(null);
    this.tell(null);
    this.draw();
  }

  /** Zoom around the time `at`, whose position does not change. */
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

  /** Select a box and describe it. */
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
      say("{place} of {count} in this lane", { place, count: box.lane.boxes.length })].join(", ");
  }

  forget() {
    this.chosen = null;
    this.drawMark();
    this.drawCursor(null);
    this.tell(null);
  }

  /** List the keys. */
  help() {
    this.forget();
    this.told = null;
    this.tip.hidden = false;
    this.tip.replaceChildren(html("b", {}, say("Keys")), ...KEYS.map((key) => html("span", {}, key)));
    const frame = this.area.getBoundingClientRect();
    this.tip.style.left = `${Math.max(frame.left, 0)}px`;
    this.tip.style.top = `${Math.max(frame.top, 0)}px`;
    this.status.textContent = this.tip.textContent;
  }

  /** Show the tooltip of a box, or hide it. */
  tell(box) {
    this.tip.hidden = !box;
    if (!box) return;
    const lane = [box.lane.name, box.lane.hint, box.kind].filter(Boolean).join(" · ");
    const lines = [lane, box.when, ...box.more].map((line) => html("span", {}, line));
    this.tip.replaceChildren(html("b", {}, box.name), ...lines);
    this.told = box;
    this.place();
  }

  /** Put the tooltip next to its box, relative to the window: a scrolling element would clip it. */
  place() {
    const box = this.told, { tip, width } = this;
    if (!box) return;  // the tooltip lists the keys
    const frame = this.root.getBoundingClientRect(), area = this.area.getBoundingClientRect();
    const left = Math.max(this.x(box.start), 0), right = Math.min(this.x(box.end), width);
    const x = area.left + (left + right) / 2 - tip.offsetWidth / 2, y = area.top + box.y + box.lane.shift;
    const below = y + ROW + 2 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(frame.left, Math.min(x, frame.right - tip.offsetWidth))}px`;
    tip.style.top = `${below ? y + ROW + 2 : y - tip.offsetHeight - 6}px`;
  }

  /** The box at a position of the drawing, or the nearest one in its row within reach. */
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

  /** The box above or below: in the neighbouring row, the nearest in time. */
  beside(box, way) {
    const rows = [...new Set(this.model.lanes.flatMap((l) => l.boxes).map((b) => b.y))].sort((a, b) => a - b);
    const y = rows[rows.indexOf(box.y) + way];
    const row = this.model.lanes.flatMap((l) => l.boxes).filter((b) => b.y === y);
    const gap = (b) => Math.max(b.start - box.start, box.start - b.end, 0);
    return row.reduce((near, b) => (near && gap(near) <= gap(b) ? near : b), null);
  }
}
