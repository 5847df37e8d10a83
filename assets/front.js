// The runs of the front page: shows the one whose model and number of GPUs are chosen, and how fast
// each run was that has been shown. It opens on the contradiction: a second GPU, and half the speed.
// The runs are stored in the page (tools/figures/hero.py); without this script the picture stays.
(() => {
  const root = document.querySelector("div.hero");
  if (!root) return;
  const chosen = { model: "lenet", count: "2" };
  const runs = [...root.querySelectorAll("template")];
  const seen = new Set(runs.filter(({ dataset }) => dataset.model === "lenet" && dataset.count === "1"));
  const bars = root.querySelector(".hero-bars");

  function bar(run) {
    const { count, share, rate } = run.dataset;
    const row = document.createElement("li");
    const known = seen.has(run);
    const length = document.createElement("i");
    length.style.inlineSize = known ? `${100 * share}%` : "0";
    const label = document.createElement("span");
    label.textContent = count === "1" ? say("{count} GPU", { count }) : say("{count} GPUs", { count });
    const value = document.createElement("b");
    value.textContent = known ? rate : "?";
    const track = document.createElement("span");
    track.append(length);
    row.append(label, track, value);
    return row;
  }

  function show() {
    const mine = runs.filter((run) => run.dataset.model === chosen.model);
    const run = mine.find((one) => one.dataset.count === chosen.count);
    seen.add(run);
    for (const button of root.querySelectorAll("button[aria-pressed]")) {
      const { model, count } = button.dataset;
      button.setAttribute("aria-pressed", String([model, count].some(
        (value) => value !== undefined && Object.values(chosen).includes(value))));
    }
    root.querySelector(".hero-says").textContent = run.dataset.says;
    bars.replaceChildren(...mine.map(bar));
    root.querySelector(".hero-run").replaceChildren(run.content.cloneNode(true));
    window.d2lTimeline?.enhance();
  }

  root.querySelectorAll(".hero-choice button").forEach((button) => {
    button.addEventListener("click", () => {
      Object.assign(chosen, button.dataset);
      show();
    });
  });
  root.hidden = false;
  document.documentElement.classList.add("hero-lives");
  show();
})();
