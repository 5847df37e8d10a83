/* All drawings of a page. */
function enhance() {
  const found = document.querySelectorAll("div.d2l-tl:not(.d2l-tl-live)");
  if (!found.length) return;
  document.head.append(html("style", {}, STYLE));
  found.forEach((root, i) => {
    try {
      root.d2l = new Widget(root, i + 1);
    } catch (error) {
      console.warn("a timeline stays as it is:", error);  // drawn by another version, perhaps
    }
  });
}

window.d2lTimeline = { read, summary, busyShare, ticks, enhance };
if (document.readyState === "loading") addEventListener("DOMContentLoaded", enhance);
else enhance();
