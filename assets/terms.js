// Shows the definition of a term of the glossary while its first use is pointed at or has the
// focus. The definitions are hidden on the page (tools/pages/terms.py); nothing is loaded.
(() => {
  const MARGIN = 8;
  let box = null;
  let owner = null;
  let touched = false; // the last pointer was a finger, which cannot hover

  function hide() {
    if (box) box.remove();
    box = owner = null;
  }

  function place() {
    const link = owner.getClientRects()[0];
    const wide = document.documentElement.clientWidth;
    const left = Math.min(link.left, wide - box.offsetWidth - MARGIN);
    const above = link.top - box.offsetHeight;
    box.style.left = `${Math.max(MARGIN, left) + window.scrollX}px`;
    box.style.top = `${(above > MARGIN ? above : link.bottom) + window.scrollY}px`;
  }

  function show(link) {
    if (owner === link) return;
    hide();
    const definition = document.getElementById(link.getAttribute("aria-describedby"));
    if (!definition) return;
    box = document.createElement("div");
    box.className = "term-box";
    box.textContent = definition.textContent;
    box.setAttribute("aria-hidden", "true"); // aria-describedby says it already
    owner = link;
    if (touched) {
      const more = document.createElement("a");
      more.href = link.href;
      more.textContent = say("Glossary");
      box.append(" ", more);
    }
    document.body.append(box);
    place();
    box.addEventListener("mouseleave", leave);
  }

  // It stays while the pointer is on the link or on the box itself, and while the link has focus.
  function leave(event) {
    const to = event.relatedTarget;
    if (box && !(to && (box.contains(to) || owner.contains(to)))) {
      if (document.activeElement !== owner) hide();
    }
  }

  for (const link of document.querySelectorAll("a.term-use")) {
    link.addEventListener("mouseenter", () => show(link));
    link.addEventListener("focus", () => show(link));
    link.addEventListener("mouseleave", leave);
    link.addEventListener("blur", (event) => {
      if (!(box && box.contains(event.relatedTarget))) hide();
    });
    link.addEventListener("click", (event) => {
      if (!touched) return;
      event.preventDefault(); // the definition appears in place; its own link leads to the glossary
      show(link);
    });
  }
  document.addEventListener("pointerdown", (event) => {
    touched = event.pointerType === "touch";
    if (touched && box && !box.contains(event.target) && !owner.contains(event.target)) hide();
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  window.addEventListener("resize", hide);
})();
