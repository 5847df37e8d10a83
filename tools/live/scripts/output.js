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
    this.hasVerdict = true;
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
