// Two switches under the title of a page with folded code: all of it is shown, and long lines are
// wrapped (on phones, book.css). Both are kept in this browser. And `d2lPrint`, which prints the page
// without its code.
(() => {
  const FOLDS = "article div.cell details.hide, article details.d2l-helpers";
  const isSolution = (fold) => fold.closest("div.cell")?.classList.contains("tag_solution");

  window.d2lPrint = () => {
    document.body.classList.add("d2l-no-code");
    addEventListener("afterprint", () => document.body.classList.remove("d2l-no-code"), { once: true });
    print();
  };

  function read(key) {
    try { return localStorage.getItem(key); } catch { return null; }
  }

  function write(key, value) {
    try {
      if (value) localStorage.setItem(key, value);
      else localStorage.removeItem(key);
    } catch { /* not kept, then */ }
  }

  function addSwitch(place, name, text, turn) {
    const box = document.createElement("input");
    const label = document.createElement("label");
    const key = `d2l-code ${name}`;
    label.className = `d2l-${name}`;
    box.type = "checkbox";
    box.checked = Boolean(read(key));
    label.append(box, ` ${text}`);
    place.append(label);
    box.addEventListener("change", () => {
      write(key, box.checked ? "1" : "");
      turn(box.checked);
    });
    if (box.checked) turn(true);
  }

  const title = document.querySelector("article h1");
  const folds = [...document.querySelectorAll(FOLDS)].filter((fold) => !isSolution(fold));
  if (!title || !document.querySelector("article div.cell_input")) return;
  const time = title.nextElementSibling;
  const place = document.createElement("p");
  place.className = "d2l-switches";
  (time?.querySelector(":scope > em:only-child") ? time : title).after(place);
  if (folds.length) {
    addSwitch(place, "show-code", say("Show all code"), (isOn) => folds.forEach((fold) => { fold.open = isOn; }));
  }
  addSwitch(place, "wrap-code", say("Wrap long lines"), (isOn) => {
    document.documentElement.classList.toggle("d2l-wrap", isOn);
    dispatchEvent(new Event("resize")); // what is marked as wider than its place (wide.js)
  });
})();
