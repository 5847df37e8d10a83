/* Find all timelines of a page and make them interactive. */
function enhance() {
  const found = document.querySelectorAll("div.d2l-tl:not(.d2l-tl-live)");
  if (!found.length) return;
  document.head.append(html("style", {}, STYLE));
  found.forEach((root, i) => {
    try {
      root.d2l = new Widget(root, i + 1);
    } catch (error) {
      console.warn("a timeline stays static:", error);  // perhaps drawn by another version
    }
  });
}

window.d2lTimeline = { read, summary, busyShare, ticks, enhance };
if (document.readyState === "loading") addEventListener("DOMContentLoaded", enhance);
else enhance();
