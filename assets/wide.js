// Marks what is wider than its place and can be scrolled: it fades at the edge behind which there is
// more (book.css), and the keyboard reaches it.
(() => {
  const PLACES = ".cell_output, .cell_input pre, article div.highlight pre, .pst-scrollable-table-container, div.math, .d2l-wide";
  const places = [...document.querySelectorAll(PLACES)];
  const look = (e) => {
    const hidden = e.scrollWidth - e.clientWidth;
    e.classList.toggle("d2l-more", hidden - Math.abs(e.scrollLeft) > 4);
    if (hidden > 0 && getComputedStyle(e).overflowX === "auto") e.tabIndex = 0;
  };
  const all = () => places.forEach(look);
  for (const place of places) place.addEventListener("scroll", () => look(place), { passive: true });
  const watch = new ResizeObserver((entries) => entries.forEach((entry) => look(entry.target)));
  for (const place of places) watch.observe(place);
  window.addEventListener("load", all);  // pictures have their widths
  document.addEventListener("toggle", all, true);
})();
