/* Keyboard, mouse and touch control. */
class Widget extends View {
  constructor(root, number) {
    super(root, number);
    this.pointers = new Map();
    this.listen();
    new ResizeObserver(() => this.later()).observe(root);
    this.draw();
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
      "?": () => this.help(),
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
    if (chosen && chosen === this.chosen) this.choose(chosen, false);  // move its tooltip along
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
    addEventListener("beforeprint", () => { this.paper = PAPER; this.show(0, this.model.seconds); });
    addEventListener("afterprint", () => { this.paper = null; this.draw(); });
  }

  /** Handle pointer moves: one pressed pointer pans, two zoom, a hovering mouse shows a tooltip. */
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
