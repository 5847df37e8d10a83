/* Makes the code cells of a page run, where `make live` serves it.

   A page has one kernel, started when its first cell runs and ended when the page is left. It is
   talked to over the Jupyter server's REST interface and its WebSocket, messages as JSON; for this
   little no library is needed. Plain JavaScript. Tests: tests/tools/test_live.py. */
(() => {
"use strict";
const TOKEN = document.currentScript.dataset.token;
const PAGE = decodeURIComponent(location.pathname).replace(/^\/book\//, "").replace(/\.html$/, "");
const DRAFTS = `d2l-live ${PAGE}`, SECONDS = "d2l-live-seconds";
const EXERCISE = new RegExp([say("Exercise {n}"), "Exercise {n}"].map((title) => title
  .replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace("{n}", "(\\d+)")).join("|"));
const SHOWN = ["text/html", "image/svg+xml", "image/png", "image/jpeg", "text/plain"];

function make(tag, attributes = {}, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...content);
  return made;
}

/* The kernel */

async function ask(address, method, body, options = {}) {
  const headers = { Authorization: `token ${TOKEN}`, "Content-Type": "application/json" };
  const answer = await fetch(address, { method, headers, body: body && JSON.stringify(body), ...options });
  if (!answer.ok) throw new Error(say("the server answers {status}", answer));
  return answer.status === 204 ? null : answer.json();
}

class Kernel {
  constructor(lost) {
    this.lost = lost;  // called with the reason when it has gone by itself
    this.waiting = new Map();  // requests by their ids
    this.session = crypto.randomUUID();
  }

  async start() {
    this.id = (await ask("/api/kernels", "POST", { name: "python3", path: "" })).id;
    await this.connect();
  }

  async connect() {
    const socket = new WebSocket(
      `ws://${location.host}/api/kernels/${this.id}/channels?session_id=${this.session}`);
    this.socket = socket;
    await new Promise((done, fail) => {
      socket.onopen = done;
      socket.onerror = () => fail(new Error(say("no connection to the kernel")));
    });
    socket.onmessage = ({ data }) => typeof data === "string" && this.hear(JSON.parse(data));
    socket.onclose = () => socket === this.socket && this.fail(say("the server has ended"));
    await this.request("kernel_info_request", {});
  }

  /** Send a request; resolves with its reply when the kernel has said all that belongs to it. */
  request(type, content, hear = () => {}) {
    const header = { msg_id: crypto.randomUUID(), session: this.session, username: "reader",
      date: new Date().toISOString(), msg_type: type, version: "5.3" };
    return new Promise((done, fail) => {
      this.waiting.set(header.msg_id, { done, fail, hear, reply: null, idle: false });
      this.socket.send(JSON.stringify({ header, parent_header: {}, metadata: {}, content,
        channel: "shell", buffers: [] }));
    });
  }

  hear({ header, parent_header: parent, content }) {
    const state = header.msg_type === "status" && content.execution_state;
    if (state === "restarting" || state === "dead") return this.fail(say("the kernel has died"));
    const request = this.waiting.get(parent.msg_id);
    if (!request) return;
    if (header.msg_type.endsWith("_reply")) request.reply = content;
    else if (state) request.idle ||= state === "idle";
    else request.hear(header.msg_type, content);
    if (request.reply && request.idle) {
      this.waiting.delete(parent.msg_id);
      request.done(request.reply);
    }
  }

  fail(reason) {
    this.cancel(reason);
    this.lost(reason);
  }

  cancel(reason) {
    for (const { fail } of this.waiting.values()) fail(new Error(reason));
    this.waiting.clear();
  }

  execute(code, hear) {
    return this.request("execute_request", { code, silent: false, store_history: true,
      user_expressions: {}, allow_stdin: false, stop_on_error: true }, hear);
  }

  interrupt() { return ask(`/api/kernels/${this.id}/interrupt`, "POST"); }

  /** End it, even while the page is being left. */
  end() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.cancel(say("the kernel was ended"));
    return this.id ? ask(`/api/kernels/${this.id}`, "DELETE", null, { keepalive: true }) : null;
  }
}

/* What a cell shows */

const CHECKER = /\bd2lmini[\\/]checks[\\/]/;
const plain = (text) => text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").replace(/[^\n]*\r(?!\n)/g, "");

class Output {
  constructor(area) {
    this.area = area;
    this.named = new Map();  // by the id of a display
    this.clearsNext = false;
    area.style.minHeight = `${area.offsetHeight}px`;  // the page does not jump
    area.replaceChildren();
  }

  hear(type, content) {
    if (type === "clear_output") {
      this.clearsNext = content.wait;
      if (!content.wait) this.area.replaceChildren();
      return;
    }
    if (type === "update_display_data") {
      const old = this.named.get(content.transient?.display_id);
      if (old) old.replaceChildren(...this.drawn(content.data));
    } else if (type === "stream") this.write(content.text, content.name);
    else if (type === "error") this.fail(content);
    else if (content.data) {
      const box = make("div", {}, ...this.drawn(content.data));
      if (content.transient?.display_id) this.named.set(content.transient.display_id, box);
      if (box.childElementCount) this.add(box);
    }
    window.d2lTimeline?.enhance();
  }

  add(element) {
    if (this.clearsNext) this.area.replaceChildren();
    this.clearsNext = false;
    this.area.append(element);
  }

  /** Show an error; what a checker says needs no traceback to be understood. */
  fail({ ename, evalue, traceback }) {
    const whole = traceback.join("\n");
    if (ename !== "AssertionError" || !evalue || !CHECKER.test(plain(whole))) {
      this.write(whole, "error");
      return;
    }
    this.add(make("p", { class: "d2l-live-verdict" }, evalue));
    const sentence = this.area.lastElementChild;
    this.write(whole, "error");
    sentence.after(make("details", { class: "d2l-live-traceback" },
      make("summary", {}, say("Traceback")), this.area.lastElementChild));
  }

  write(text, name) {
    let pre = this.area.lastElementChild?.dataset.stream === name && !this.clearsNext
      && this.area.lastElementChild.querySelector("pre");
    if (!pre) {
      pre = make("pre");
      const kind = name === "error" ? "traceback d2l-live-error" : name === "stderr" ? "stderr" : "stream";
      const box = make("div", { class: `output ${kind} highlight-myst-ansi notranslate` },
        make("div", { class: "highlight" }, pre));
      box.dataset.stream = name;
      this.add(box);
    }
    pre.textContent = plain(pre.textContent + text);
  }

  /** The elements that show the best of the forms in which a value came. */
  drawn(data) {
    const kind = SHOWN.find((name) => name in data);
    if (!kind) return [];
    const value = [data[kind]].flat().join("");
    if (kind === "text/plain") {
      const box = make("div", { class: "output text_plain highlight-myst-ansi notranslate" },
        make("div", { class: "highlight" }, make("pre", {}, plain(value))));
      return [box];
    }
    if (kind.startsWith("image/") && !kind.includes("svg")) {
      const alt = plain([data["text/plain"] ?? say("a picture")].flat().join(""));
      return [make("img", { src: `data:${kind};base64,${value.trim()}`, alt })];
    }
    const box = make("div", { class: "output text_html" });
    box.innerHTML = value;
    return [box];
  }
}

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

function kept(name) {
  try { return JSON.parse(localStorage.getItem(name)) ?? {}; } catch { return {}; }
}

function keep(name, values) {
  try { localStorage.setItem(name, JSON.stringify(values)); } catch { /* not kept, then */ }
}

/** A short name for a program. */
const digest = (code) => [...code].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) | 0, 7).toString(36);
const inSeconds = (milliseconds) => (milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0);

class Cell {
  constructor(element, page, name) {
    Object.assign(this, { element, page, name, tags: [], ran: false });
    this.pre = element.querySelector(".cell_input pre");
    this.source = this.original = this.pre.textContent.trim();
    this.isAnswer = element.classList.contains("d2l-live-answer");
    this.isOptional = this.isAnswer || element.classList.contains("tag_solution");
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

/** A cell that a reader wants to run, and those that run first. */
class Batch {
  constructor(items, wanted) {
    const known = kept(SECONDS);
    Object.assign(this, { items, wanted, done: 0, spent: 0 });
    this.before = items.length - 1;
    this.expected = items.slice(0, -1).reduce((sum, item) => sum + known[digest(item.source)], 0);  // NaN: not known
  }

  /** Tell at the wanted cell how far those before it are. */
  tell(milliseconds) {
    const values = { n: this.done + 1, all: this.before, seconds: inSeconds(this.spent + milliseconds),
      expected: inSeconds(this.expected) };
    if (this.wanted?.said) this.wanted.said.textContent = this.expected >= 0
      ? say("Cell {n} of {all} that run first; {seconds} s, the last time {expected} s in all", values)
      : say("Cell {n} of {all} that run first; {seconds} s so far", values);
  }

  /** Note that one has run; return what there is to say at it. */
  end(item, milliseconds, failed) {
    const seconds = inSeconds(milliseconds);
    this.done += 1;
    this.spent += milliseconds;
    keep(SECONDS, { ...kept(SECONDS), [digest(item.source)]: Math.round(milliseconds) });
    if (failed && this.wanted && item !== this.wanted) this.wanted.said.textContent = say("Not run: a cell before it has failed");
    if (failed) return say("Failed after {seconds} s", { seconds });
    if (item !== this.wanted || !this.before) return say("Ran for {seconds} s", { seconds });
    return say("Ran for {seconds} s, after {n} cells that took {before} s",
      { seconds, n: this.before, before: inSeconds(this.spent - milliseconds) });
  }
}

/* The page */

class Page {
  constructor() {
    this.items = [];  // cells, and what runs without being shown, in the book's order
    this.queue = [];
    this.kernel = null;
    this.isRunning = false;
  }

  async build() {
    const shown = [...document.querySelectorAll("article div.cell")].filter((e) => e.querySelector(".cell_input pre"));
    if (!shown.length) return;
    let known = [], answers = {};
    try {
      ({ cells: known, answers } = await (await fetch(`/live/cells/${PAGE}`)).json());
    } catch { /* those shown, then */ }
    for (const element of shown) this.adopt(element, known);
    this.items.push(...known.map(hidden));
    for (const heading of document.querySelectorAll("article h3")) {
      if (EXERCISE.test(heading.textContent)) this.addAnswer(heading, answers);
    }
    this.addBar();
  }

  /** Take a cell of the page, after those of the notebook that stand unseen before it. */
  adopt(element, known) {
    const cell = new Cell(element, this, say("Code cell {n}",
      { n: this.items.filter((i) => i.element).length + 1 }));
    const at = known.findIndex(({ source }) => source.trim() === cell.original);
    if (at >= 0) {
      this.items.push(...known.slice(0, at).map(hidden));
      cell.tags = known[at].tags;
      known.splice(0, at + 1);
    }
    this.items.push(cell);
  }

  addAnswer(heading, answers) {
    const n = EXERCISE.exec(heading.textContent).slice(1).find(Boolean), section = heading.parentElement;
    const element = make("div", { class: "cell docutils container d2l-live-answer" },
      make("p", {}, say("Your answer")),
      make("div", { class: "cell_input docutils container" },
        make("div", { class: "highlight-ipython3 notranslate" },
          make("div", { class: "highlight" }, make("pre", {}, `${answers[n] ?? ""}\n`)))));
    const next = section.querySelector(":scope > div.cell.tag_hide-cell");
    if (next) next.before(element);
    else section.append(element);
    const after = this.items.findIndex((item) => item.element
      && element.compareDocumentPosition(item.element) & Node.DOCUMENT_POSITION_FOLLOWING);
    this.items.splice(after < 0 ? this.items.length : after, 0,
      new Cell(element, this, say("Your answer to exercise {n}", { n })));
  }

  addBar() {
    const button = (text, act) => {
      const made = make("button", { type: "button" }, text);
      made.addEventListener("click", () => made.getAttribute("aria-disabled") === "true" || act());
      return made;
    };
    this.status = make("span", { role: "status", "aria-live": "polite" });
    this.stop = button(say("Interrupt"), () => this.interrupt());
    this.again = button(say("Restart kernel"), () => this.restart());
    const all = button(say("Run all"), () => this.enqueue(this.items.filter((item) => !item.isOptional)));
    const bar = make("div", { class: "d2l-live-bar", role: "region", "aria-label": say("Kernel of this page") },
      this.status, all, this.stop, this.again);
    document.querySelector("article").append(bar);
    this.say(say("No kernel yet. Run a cell (Shift+Enter) to start one. Ctrl+] indents lines, Ctrl+[ moves them back."));
  }

  say(text) {
    this.status.textContent = text;
    this.stop.setAttribute("aria-disabled", !this.isRunning);
    this.again.setAttribute("aria-disabled", !this.kernel);
  }

  /** Run a cell, after what has to run before it: see tools/live/needs.py. */
  async run(cell) {
    cell.open();
    let before;
    try {
      before = await this.plan(cell);
    } catch (error) {
      this.say(say("Stopped: {reason}.", { reason: error.message }));
      return;
    }
    this.enqueue([...before, cell], cell);
  }

  async plan(cell) {
    const isSure = (item) => item.ran || item === this.current || this.queue.some((entry) => entry.item === item);
    const helps = (item) => item.isAnswer === cell.isAnswer && item.source.trim() !== item.hint;
    const isOptional = (item) => item.isOptional && !(cell.isOptional && helps(item));
    const places = (test) => this.items.flatMap((item, i) => (test(item) ? [i] : []));
    const { run, again } = await ask("/live/plan", "POST", { sources: this.items.map(({ source }) => source),
      ran: places(isSure), wanted: this.items.indexOf(cell), optional: places(isOptional), needs_all: !cell.isOptional });
    for (const i of again) this.items[i].ran = false;
    return run.map((i) => this.items[i]);
  }

  /** Run cells in turn; the last is why the others run, if `wanted` is given. */
  async enqueue(items, wanted = null) {
    const batch = new Batch(items, wanted);
    this.queue.push(...items.map((item) => ({ item, batch })));
    if (this.isRunning) return;
    this.isRunning = true;
    let ending = say("Ready.");
    try {
      if (!this.kernel) await this.start();
      while (this.queue.length) {
        const entry = this.queue.shift();
        this.current = entry.item;
        ending = await this.execute(entry, this.queue.length);
      }
    } catch (error) {
      ending = say("Stopped: {reason}.", { reason: error.message });
      this.queue = [];
    }
    this.isRunning = false;
    this.current = null;
    this.say(ending);
  }

  async start() {
    this.say(say("Starting a kernel ..."));
    const kernel = new Kernel(() => this.forget(kernel));
    try {
      await kernel.start();
    } catch (error) {
      kernel.end();
      throw error;
    }
    this.kernel = kernel;
  }

  forget(kernel) {
    if (this.kernel !== kernel) return;
    this.kernel = null;
    for (const item of this.items) item.ran = false;
  }

  /** Run one cell; return what there is to say. */
  async execute({ item, batch }, left) {
    const output = item.output?.(), begin = performance.now();
    this.say(left ? say("Running; {left} more to go ...", { left }) : say("Running ..."));
    if (item.said) item.said.textContent = say("Running ...");
    const tell = () => item !== batch.wanted && batch.tell(performance.now() - begin);
    const clock = setInterval(tell, 1000);
    tell();
    item.ran = true;  // until it is edited, during its run perhaps
    let reply;
    try {
      reply = await this.kernel.execute(item.source, (type, content) => output?.hear(type, content));
    } catch (error) {
      item.ran = false;
      if (item.said) item.said.textContent = error.message;
      throw error;
    } finally {
      clearInterval(clock);
      if (output) output.area.style.minHeight = "";
    }
    const failed = reply.status !== "ok", isMeant = item.tags.includes("raises-exception");
    const ended = batch.end(item, performance.now() - begin, failed && !isMeant);
    if (item.said) item.said.textContent = ended;
    if (!failed || isMeant) return say("Ready.");
    item.ran = false;
    item.open?.();
    if (this.queue.length) item.element?.scrollIntoView({ block: "center" });
    const skipped = this.queue.length, values = { cell: item.name ?? say("A cell out of sight"), error: reply.ename };
    this.queue = [];
    if (reply.ename === "KeyboardInterrupt") return say("Interrupted.");
    return skipped ? say("{cell} ended with an error: {error}; the cells after it were not run.", values)
      : say("{cell} ended with an error: {error}.", values);
  }

  async interrupt() {
    this.queue = [];
    await this.kernel?.interrupt();
  }

  async restart() {
    const old = this.kernel;
    this.queue = [];
    this.forget(old);
    await old.end();
    for (const item of this.items) if (item.said) item.said.textContent = "";
    this.say(say("Kernel stopped. The next run starts a new one and runs the cells above first."));
  }

  leave() {
    const old = this.kernel;
    this.queue = [];
    this.forget(old);
    old?.end();
  }
}

const hidden = ({ source, tags }) => ({ source, tags, ran: false, isAnswer: false, isOptional: tags.includes("solution") });
const page = new Page();
addEventListener("pagehide", () => page.leave());
page.build();
})();
