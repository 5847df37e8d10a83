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
    if (output?.hasVerdict) return say("{cell}: the checker says what is wrong.", values);
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
