/* The words of a static drawing, which are English, in the language of the page. */
const KINDS = {
  "matrix product": say("matrix product"), convolution: say("convolution"),
  "element by element": say("element by element"), "reduce, pool, normalise": say("reduce, pool, normalise"),
  "copy to device": say("copy to device"), "copy to host": say("copy to host"),
  "copy between GPUs": say("copy between GPUs"), "copy within a GPU": say("copy within a GPU"), copy: say("copy"),
  collective: say("collective"), launch: say("launch"), wait: say("wait"), "load data": say("load data"),
  fill: say("fill"), pad: say("pad"), embedding: say("embedding"), "cut or join": say("cut or join"),
  other: say("other"),
};
const SENTENCES = [
  [/^Boxes too narrow to draw .*$/, () => say("Boxes too narrow to draw are joined and look like the kind that took most "
    + "of their time; zoom in with +, with Ctrl and the wheel, or by a double click. The key ? lists all keys.")],
  [/^Not drawn, for lack of room: (\d+) lanes \((.*)\)\. .*$/, (_, count, names) =>
    say("Not drawn, for lack of room: {count} lanes ({names}). .lanes() and .busy() have all.", { count, names })],
  [/^simulated time \((.*)\)$/, (_, unit) => say("simulated time ({unit})", { unit })],
  [/^time \((.*)\)$/, (_, unit) => say("time ({unit})", { unit })],
  [/^Timeline of (.*)$/, (_, what) => say("Timeline of {what}", { what: inWords(what) })],
  [/^(\d+) spans, (\S+ \S+) \(simulated\)$/, (_, count, time) =>
    say("{count} spans, {time} (simulated)", { count, time: figures(time) })],
  [/^(\d+) spans, (\S+ \S+)$/, (_, count, time) => say("{count} spans, {time}", { count, time: figures(time) })],
  [/^(.*), \.\.\. \((\d+) operations\)$/, (_, names, count) => say("{names}, ... ({count} operations)", { names, count })],
  [/^stream (.*)$/, (_, n) => say("stream {n}", { n })],
  [/^(.*), (\d+) ranks$/, (_, what, count) => say("{what}, {count} ranks", { what, count })],
];
const COMMA = new Intl.NumberFormat(document.documentElement.lang || "en").format(0.5).includes(",");

/** Numbers of a text as the language of the page writes them. */
const figures = (text) => (COMMA ? text.replace(/\d[\d.,]*\d/g, (number) =>
  number.replace(/[.,]/g, (mark) => (mark === "." ? "," : "."))) : text);

/** A sentence of a drawing, or a kind of operation. */
function inWords(english) {
  if (Object.hasOwn(KINDS, english)) return KINDS[english];
  const [pattern, words] = SENTENCES.find(([known]) => known.test(english)) ?? [];
  return pattern ? english.replace(pattern, words) : english;
}

/** Translate what stands in the drawing around its boxes. */
function translate(root) {
  const labels = root.querySelectorAll(".d2l-tl-body > svg > text");
  for (const text of [...root.querySelectorAll(".d2l-tl-legend > span, .d2l-tl-note"), [...labels].at(-1)]) {
    const words = [...text.childNodes].find((node) => node.nodeType === 3);
    if (words) words.data = inWords(words.data);
  }
}
