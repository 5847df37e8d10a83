/* Where the page is, and what all parts use. */
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
