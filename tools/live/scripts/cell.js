/* Editing */

const WORDS = "and as assert async await break class continue def del elif else except finally for"
  + " from global if import in is lambda nonlocal not or pass raise return try while with yield";
const CONSTANTS = new Set(["True", "False", "None"]), KEYWORDS = new Set(WORDS.split(" "));
const TOKENS = new RegExp([
  /(?<comment>#.*)/, /(?<string>\b[rbfu]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/i,
  /(?<number>\b\d[\d_.]*(?:e[+-]?\d+)?\b)/, /(?<word>[A-Za-z_]\w*)/,
].map((part) => part.source).join("|"), "gi");

/** Colour a program as the book's pages do. */
function coloured(code) {
  const pieces = [];
  let end = 0;
  for (const found of code.matchAll(TOKENS)) {
    const { comment, string, number, word } = found.groups;
    const kind = comment ? "c1" : string ? "s2" : number ? "mi"
      : CONSTANTS.has(word) ? "kc" : KEYWORDS.has(word) ? "k" : "n";
    pieces.push(code.slice(end, found.index), make("span", { class: kind }, found[0]));
    end = found.index + found[0].length;
  }
  return [...pieces, code.slice(end), "\n"];
}

class Cell {
  constructor(element, page, name) {
    Object.assign(this, { element, page, name, tags: [], ran: false });
    this.pre = element.querySelector(".cell_input pre");
    this.source = this.original = this.pre.textContent.trim();
    this.isAnswer = element.classList.contains("d2l-live-answer");
    this.isOptional = this.isAnswer || element.classList.contains("tag_solution");
    if (this.isAnswer) this.pre.replaceChildren(...coloured(this.source));
    this.hint = this.isAnswer ? this.original : null;
    this.key = this.hint === null ? this.original : name;
    this.addEditor();
    this.addRow();
    const draft = kept(DRAFTS)[this.key];
    if (draft !== undefined) this.edit(this.area.value = draft);
  }

  addEditor() {
    const shared = ["font-family", "font-size", "font-weight", "line-height", "letter-spacing", "padding",
      "border-width", "border-style"];
    this.area = make("textarea", { "aria-label": this.name, spellcheck: "false", autocapitalize: "off",
      autocomplete: "off", wrap: "off" });
    this.area.value = this.source;
    const style = () => {
      const own = getComputedStyle(this.pre);
      for (const property of shared) this.area.style.setProperty(property, own.getPropertyValue(property));
    };
    style();
    addEventListener("resize", style);
    this.pre.style.overflow = "hidden";
    this.pre.style.margin = "0";
    this.pre.parentElement.classList.add("d2l-live-editor");
    this.pre.after(this.area);
    this.area.addEventListener("scroll", () => { this.pre.scrollLeft = this.area.scrollLeft; });
    this.area.addEventListener("input", () => this.edit(this.area.value));
    this.area.addEventListener("keydown", (event) => this.pressed(event));
  }

  addRow() {
    const run = make("button", { type: "button", class: "d2l-live-run" }, say("Run"));
    run.setAttribute("aria-label", say("Run: {cell}", { cell: this.name }));
    run.addEventListener("click", () => this.page.run(this));
    this.reset = make("button", { type: "button", hidden: "" }, say("Reset to the book's version"));
    this.reset.addEventListener("click", () => this.edit(this.area.value = this.original));
    this.said = make("span", { class: "d2l-live-said" });
    const row = make("div", { class: "d2l-live-row" }, run, this.reset, this.said);
    this.element.querySelector(".cell_input").after(row);
  }

  pressed(event) {
    if (event.ctrlKey && "[]".includes(event.key)) {
      event.preventDefault();
      this.indent(event.key === "]");
    } else if (event.key !== "Enter") return;
    else if (event.shiftKey || event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.page.run(this);
    } else if (!event.isComposing) {  // the next line begins below this one
      const line = this.area.value.slice(0, this.area.selectionStart).split("\n").pop();
      event.preventDefault();
      document.execCommand("insertText", false,
        `\n${/^ */.exec(line)[0]}${/:\s*(#.*)?$/.test(line) ? "    " : ""}`);
    }
  }

  /** Indent the lines of the selection, or move them back. */
  indent(isDeeper) {
    const { value, selectionStart, selectionEnd } = this.area;
    const begin = value.lastIndexOf("\n", selectionStart - 1) + 1;
    const lines = value.slice(begin, selectionEnd).split("\n");
    const moved = lines.map((line) => (isDeeper ? `    ${line}` : line.replace(/^ {1,4}/, ""))).join("\n");
    this.area.setSelectionRange(begin, selectionEnd);
    document.execCommand("insertText", false, moved);
    this.area.setSelectionRange(begin, begin + moved.length);
  }

  edit(text) {
    this.source = text;
    this.ran = false;
    this.pre.replaceChildren(...coloured(text));
    this.pre.scrollLeft = this.area.scrollLeft;
    this.reset.hidden = text.trim() === this.original;
    this.said.textContent = this.reset.hidden ? "" : say("Edited, not run yet");
    const all = kept(DRAFTS);
    if (this.reset.hidden) delete all[this.key];
    else all[this.key] = text;
    keep(DRAFTS, all);
  }

  output() {
    let area = this.element.querySelector(".cell_output");
    if (!area) {
      area = make("div", { class: "cell_output docutils container" });
      this.element.querySelector(".d2l-live-row").after(area);
    }
    return new Output(area);
  }

  /** Unfold and uncover its output: who runs a cell wants to see what happens. */
  open() {
    const focused = document.activeElement, cover = this.element.querySelector(".d2l-cover:not([hidden])");
    cover?.click();  // of a guess (assets/guess.js)
    if (cover) focused?.focus({ preventScroll: true });
    for (const details of this.element.querySelectorAll("details")) {
      if (details.querySelector(".cell_output")) details.open = true;
    }
  }
}
