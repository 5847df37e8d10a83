/* Strips: what each rank holds, step by step, in the place of the picture of one step.

   tools/figures/strips makes the data behind each <div class="d2l-strip">: what may be chosen, and for each
   choice a film of sentences and marks. Tests: tests/book/test_strips.py. */
(() => {
"use strict";
const SVG = "http://www.w3.org/2000/svg", WIDTH = 440, ANCHORS = ["middle", "start", "end"];
const html = (tag, attributes, ...children) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
};
const svg = (tag, attributes, text = "") => {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};

class Strip {
  constructor(root) {
    this.data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    this.chosen = [...this.data.chosen];
    this.at = this.data.step < 0 ? this.film().says.length + this.data.step : this.data.step;
    const picked = Object.entries(this.data.choices).map(([name, values], i) => {
      const select = html("select", { onchange: () => { this.chosen[i] = select.value; this.go(-Infinity); } });
      select.append(...values.map((v) => html("option", { value: v, selected: v === this.chosen[i] }, v)));
      return html("label", {}, `${name} `, select);
    });
    const button = (text, by) => html("button", { type: "button", onclick: () => this.go(by) }, text);
    this.buttons = [button(say("Start"), -Infinity), button(say("Back"), -1), button(say("Next"), 1), button(say("End"), Infinity)];
    this.status = html("p", { className: "d2l-status" });
    this.status.setAttribute("role", "status");
    this.picture = svg("svg", { role: "img" });
    const player = html("div", { className: "d2l-player" },
      html("div", { className: "d2l-controls" }, ...picked, ...this.buttons), this.picture, this.status);
    player.setAttribute("role", "group");
    player.setAttribute("aria-label", say("{title}, step by step", this.data));
    player.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
      if (!by || event.target.tagName === "SELECT" || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      this.go(by);
    });
    const image = root.querySelector("img");
    (image.closest("a, p") ?? image).replaceWith(player);
    this.draw();
  }

  film() {
    return this.data.films[this.chosen.join(";")];
  }

  go(by) {
    this.at = Math.min(Math.max(this.at + by, 0), this.film().says.length - 1);
    this.draw();
  }

  draw() {
    const { height, says, marks } = this.film(), { at } = this, last = says.length - 1;
    this.status.textContent = say("{step} of {count}: {what}", { step: at + 1, count: last + 1, what: says[at] });
    this.picture.setAttribute("aria-label", `${this.data.title}. ${says[at]}`);
    this.picture.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    const off = [!at, !at, at === last, at === last];
    this.buttons.forEach((button, i) => button.setAttribute("aria-disabled", off[i]));
    const seen = marks.filter((mark) => mark[6] <= at && at <= (mark[7] ?? last));
    this.picture.replaceChildren(svg("rect", { width: WIDTH, height, rx: 10, fill: "#FFFFFF" }), ...seen.flatMap((m) => this.mark(m)));
  }

  mark([x, y, w, h, colour, text]) {
    const fill = this.data.colours[colour], words = (u, v, anchor, ink) =>
      svg("text", { x: u, y: v + 4.9, "text-anchor": anchor, fill: ink }, text);
    if (!w) return [words(x, y, ANCHORS[h], fill)];
    const box = svg("rect", { x, y, width: w, height: h, fill });
    return text ? [box, words(x + w / 2, y + h / 2, "middle", this.data.colours[4])] : [box];
  }
}

const start = () => document.querySelectorAll("div.d2l-strip").forEach((root) => new Strip(root));
if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();
})();
