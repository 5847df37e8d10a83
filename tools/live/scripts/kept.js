/* What this browser keeps: drafts, and how long cells have run. */
function kept(name) {
  try { return JSON.parse(localStorage.getItem(name)) ?? {}; } catch { return {}; }
}

function keep(name, values) {
  try { localStorage.setItem(name, JSON.stringify(values)); } catch { /* not kept, then */ }
}

/** A short name for a program. */
const digest = (code) => [...code].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) | 0, 7).toString(36);
const inSeconds = (milliseconds) => (milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0);
