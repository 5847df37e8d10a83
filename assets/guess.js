// Covers the outputs below a guess until the reader has chosen, or has asked to see them. What was
// chosen is kept in this browser; nothing is sent. Without this script nothing is covered.
(() => {
  const PREFIX = "d2l-guess ";
  const ALL = `${PREFIX}all`; // "show all answers"
  const guesses = [];
  const memory = new Map(); // where the browser keeps nothing

  function read(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return memory.get(key) ?? null;
    }
  }

  function write(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      memory.set(key, value);
    }
  }

  function forget() {
    memory.clear();
    try {
      const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
      keys.forEach((key) => localStorage.removeItem(key));
    } catch {
      // nothing was kept
    }
  }

  function element(name, text, parent, kind = "") {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    if (name === "button") made.type = "button";
    if (parent) parent.append(made);
    return made;
  }

  // The cells that follow: as many as the box says, or all up to the next text.
  function cellsBelow(box) {
    const said = /\bd2l-cells-(\d+)/.exec(box.className);
    const cells = [];
    for (let next = box.nextElementSibling; next; next = next.nextElementSibling) {
      if (next.classList.contains("cell")) cells.push(next);
      else if (!said && cells.length) break;
      if (said && cells.length === Number(said[1])) break;
    }
    return cells;
  }

  // Chinese has no spaces: there two characters count as a word.
  function countWords(text) {
    const characters = text.match(/\p{Script=Han}/gu)?.length ?? 0;
    return characters / 2 + text.replace(/\p{Script=Han}/gu, " ").trim().split(/\s+/).length;
  }

  // A short paragraph that says the answer; whatever teaches stays in sight: formulas, bold rules.
  function isVerdict(element) {
    if (!element?.matches("p") || element.querySelector(".math, strong")) return false;
    return countWords(element.textContent) <= 30;
  }

  // What is covered of them: outputs, checks whose first line gives the answer away, and the
  // verdict that follows.
  function spoilers(cells) {
    let after = cells.at(-1)?.nextElementSibling;
    const said = isVerdict(after) ? [after] : [];
    if (said.length) after = after.nextElementSibling;
    const isCheck = (cell) => cell.matches(".cell.tag_check");
    const checks = [...cells, after].filter((cell) => cell && isCheck(cell));
    const open = cells.filter((cell) => !cell.querySelector("details.hide .cell_output"));
    const outputs = open.flatMap((cell) => [...cell.querySelectorAll(".cell_output")]);
    const seen = outputs.filter((e) => !checks.some((check) => check.contains(e)));
    return seen.length ? { quiet: [...checks, ...said], loud: seen } : { quiet: checks, loud: said };
  }

  function make(box) {
    const items = [...box.querySelectorAll("li")];
    const words = items.map((item) => item.textContent.trim());
    const right = items.findIndex((item) => item.classList.contains("d2l-right"));
    const special = box.querySelector(".d2l-answer");
    const answer = (special ?? items[right]).textContent.trim();
    const page = location.pathname.split("/").pop();
    const key = `${PREFIX}${page} ${words.join(" | ")}`;
    const { quiet, loud } = spoilers(cellsBelow(box));
    let seen = false; // by "Show", until the page is left

    const question = box.querySelector("p");
    question.id = `d2l-guess-${guesses.length + 1}`;
    box.setAttribute("role", "group");
    box.setAttribute("aria-labelledby", question.id);
    const buttons = items.map((item, index) => {
      const button = element("button", "", null, "d2l-option");
      button.append(...(item.querySelector("p") ?? item).childNodes);
      button.onclick = () => {
        write(key, String(index));
        update();
      };
      item.replaceChildren(button);
      return button;
    });
    if (special) special.hidden = true;
    const result = element("p", "", box, "d2l-result");
    result.setAttribute("role", "status");
    const more = element("p", "", box, "d2l-more");
    const show = element("button", say("Show"), more);
    const all = element("button", "", more);
    const covers = loud.map((output) => {
      const cover = element("button", say("Guess first, or show the answer"), null, "d2l-cover");
      output.before(cover);
      cover.onclick = () => {
        reveal();
        output.tabIndex = -1; // the button that had the focus is gone
        output.focus({ preventScroll: true });
      };
      return cover;
    });

    function reveal() {
      seen = true;
      update();
    }

    show.onclick = () => {
      reveal();
      buttons[0].focus();
    };
    all.onclick = () => {
      if (read(ALL)) {
        forget();
        guesses.forEach((guess) => guess.cover());
      } else {
        write(ALL, "1");
      }
      guesses.forEach((guess) => guess.update());
    };

    function update() {
      const kept = read(key);
      const chosen = kept === null ? -1 : Number(kept);
      const open = seen || chosen >= 0 || Boolean(read(ALL));
      buttons.forEach((button, index) => {
        button.setAttribute("aria-pressed", String(index === chosen));
        button.classList.toggle("d2l-is-right", open && index === right);
      });
      const values = { guess: words[chosen], answer };
      let text = open ? say("The answer: {answer}.", values) : "";
      if (chosen >= 0) text = say("You guessed {guess}; the answer is {answer}.", values);
      if (chosen === right) text = say("You guessed {guess}, which is right.", values);
      if (chosen === right && answer !== words[right]) {
        text = say("You guessed {guess}, which is the nearest: {answer}.", values);
      }
      if (result.textContent !== text) result.textContent = text;
      show.hidden = open;
      all.textContent = read(ALL) ? say("Cover answers again") : say("Always show answers");
      for (const covered of [...loud, ...quiet]) {
        covered.classList.toggle("d2l-covered", !open);
      }
      covers.forEach((cover) => {
        cover.hidden = open;
      });
      if (open) dispatchEvent(new Event("resize")); // for what fits itself into its place
    }

    guesses.push({
      update,
      reveal,
      covers: (place) => [...loud, ...quiet].some((covered) => covered.contains(place)),
      cover: () => {
        seen = false;
      },
    });
    update();
  }

  // A link to something that is covered shows it.
  function uncoverTarget() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (place) guesses.filter((guess) => guess.covers(place)).forEach((guess) => guess.reveal());
  }

  document.querySelectorAll(".d2l-guess").forEach(make);
  addEventListener("hashchange", uncoverTarget);
  uncoverTarget();
})();
