/* The picture: the visible part of the time, drawn at the available width. */
const SVG = "http://www.w3.org/2000/svg";
const ROW = 24, AXIS = 24, CHARACTER = 6.4, NAME = 15;  // as in layout.py; height of a name above
const NARROW = 520;  // below this width, lane names are above the lanes
const PAPER = 660;  // width on a printed page
const MOST = 100;  // maximum zoom

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

/** The width of a text in average characters: an m is wider than others. */
const characters = (text) => text.length + 0.7 * (text.match(/[mw]/gi)?.length ?? 0);

class Picture {
  constructor(root, number) {
    this.root = root;
    this.number = number;
    this.model = read(root);
    this.from = 0;  // the view, in seconds of the axis
    this.to = this.model.seconds;
    this.chosen = null;
    this.prepare();
  }

  /** Add what the static drawing lacks. */
  prepare() {
    const { root, model } = this, plot = model.plot;
    this.area = plot.parentElement;
    root.classList.add("d2l-tl-live");
    const bar = html("div", { className: "d2l-tl-bar" });
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", say("Zoom timeline {n}", { n: this.number }));
    this.buttons = [
      ["+", say("Zoom in"), () => this.zoom(2)], ["−", say("Zoom out"), () => this.zoom(0.5)],
      ["◀", say("Earlier"), () => this.pan(-0.4)], ["▶", say("Later"), () => this.pan(0.4)],
      [say("All"), say("Show all"), () => this.show(0, model.seconds), say("All: show the whole timeline")],
    ].map(([text, name, act, label]) => {
      const button = html("button", { type: "button", title: name, onclick: act }, text);
      button.setAttribute("aria-label", label ?? name);
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
    translate(root);
    this.area.setAttribute("role", "application");
    this.area.setAttribute("aria-roledescription", say("timeline"));
    this.area.setAttribute("aria-label", say("Timeline {n}: {what}",
      { n: this.number, what: inWords(model.title.replace(/^Timeline of /, "")) }));
    this.area.setAttribute("aria-describedby", this.summary.id);
    for (const box of model.lanes.flatMap((lane) => lane.boxes)) {
      box.group.querySelector("title").remove();  // the tooltip replaces it
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

  draw() {
    const room = this.paper ?? this.root.clientWidth;
    if (!room) return;  // hidden
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
    const texts = box.count > 1 ? [name, `${box.count} x ${box.kind}`, say("{count} operations", box)]
      : [name, name.split(" ")[0]];
    box.text.textContent = texts.find((text) => characters(text) <= room) ?? "";
    box.text.setAttribute("x", ((low + high) / 2).toFixed(1));
    box.text.setAttribute("y", y + 15);
  }

  drawAxis(phone) {
    const per = this.model.perUnit;
    const { values, decimals } = ticks(this.from / per, this.to / per, Math.max(2, this.width / 75));
    for (const value of values) {
      const x = this.x(value * per), anchor = x < 16 ? "start" : x > this.width - 16 ? "end" : "middle";
      this.grid.append(element("path", { class: "d2l-tl-grid", d: `M${x.toFixed(1)} 0V${this.bottom}` }));
      this.letter(x.toFixed(1), this.bottom + 15, figures(value.toFixed(decimals)), anchor);
    }
    if (phone) this.letter(this.width / 2, this.bottom + 15 + NAME, inWords(this.model.axis), "middle");
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

  /** Draw a vertical line through all lanes, with its time at the bottom. */
  drawCursor(x) {
    const shown = x === null ? "hidden" : "visible";
    this.cursor.setAttribute("visibility", shown);
    this.now.setAttribute("visibility", shown);
    if (x === null) return;
    this.cursor.setAttribute("d", `M${x} 0V${this.bottom}`);
    const right = x > this.width - 60;
    this.now.textContent = figures((this.time(x) / this.model.perUnit).toFixed(this.decimals + 2));
    this.now.setAttribute("x", right ? x - 4 : x + 4);
    this.now.setAttribute("y", this.bottom - 2);
    this.now.setAttribute("text-anchor", right ? "end" : "start");
  }
}
