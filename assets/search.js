// Results of the search as a reader looks for them: one card a page, with the sections in which the
// words stand, and one card for the glossary. Replaces parts of Sphinx's searchtools.js.
(() => {
  const GLOSSARY = "glossary";
  const LEAST = 3; // letters of a word that is marked
  const UNMARKED = "all and are can does for has how its many much need not the they this what when which who why with you".split(" ");
  const MOST = 3; // sections of a page
  const MOST_LETTERS = 40; // of a word
  const LANGUAGE = document.documentElement.lang.slice(0, 2);
  const LENGTH = ["ko", "zh"].includes(LANGUAGE) ? 140 : 240; // of what is quoted
  const BLOCKS = "h2, h3, h4, p, li, td, dd, figcaption, pre";
  // Han and Hangul are indexed by pairs of letters (tools/editions/search.py), but marked as a whole.
  const PAIRED = "\\u3400-\\u9fff\\uac00-\\ud7a3";
  const RUN = new RegExp(`[${PAIRED}]+|(?:(?![${PAIRED}])[\\p{L}\\p{N}_])+`, "gu");
  const START = new RegExp(`^[${PAIRED}]`);
  const isPaired = (word) => START.test(word);
  const TURKISH = { i: "[iıİI]", k: "[kğ]", p: "[pb]", "ç": "[çc]", t: "[td]" }; // letters of a stem in a text
  const canFetch = location.protocol !== "file:";
  const sections = new Map(); // of pages, those whose titles match
  let marked = "";
  let wholes = []; // words of Han or Hangul that were asked for

  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const found = parse(query);
    wholes = (query.match(RUN) ?? []).filter(isPaired);
    for (const word of [...found[3]]) if (word.length < LEAST || UNMARKED.includes(word)) found[3].delete(word);
    for (const word of wholes) if (word.length > 1) found[3].add(word);
    found[0] = query.replaceAll("İ", "i"); // else its small letter is two, and no name has them
    marked = [...found[3]].join(" ");
    localStorage.removeItem("sphinx_highlight_terms"); // a page that is opened from here gets them
    return found;
  };
  document.getElementById("search-results").addEventListener("click", (event) => {
    if (event.target.closest("a")) localStorage.setItem("sphinx_highlight_terms", marked);
  });

  // The names of terms in other languages, by their anchors, which do without many of their letters.
  function termNames() {
    const names = new Map((window.BOOK_TERMS ?? []).flat().map((name) => [name.toLowerCase(), name]));
    const entries = Object.entries(Search._index.indexentries);
    return new Map(entries.flatMap(([entry, places]) => places.map(([, anchor]) => [`#${anchor}`, names.get(entry)])));
  }

  // The best comes last. Of a page what comes first stays; objects of the package are no pages.
  const perform = Search._performSearch;
  Search._performSearch = (...words) => {
    const cards = new Map();
    const names = termNames();
    for (const [page, title, anchor, about, ...rest] of perform(...words).reverse()) {
      const isTerm = page === GLOSSARY && anchor.startsWith("#term-");
      const isSection = anchor && !about && !isTerm;
      if (isSection) sections.set(page, [...(sections.get(page) ?? []), anchor.slice(1)]);
      const key = about || (isSection && !canFetch) ? page + anchor : page;
      if (cards.has(key)) continue;
      const term = names.get(anchor) ?? decodeURIComponent(anchor.slice(6)).replaceAll("-", " ");
      if (isTerm) cards.set(key, [page, say("Glossary: {term}", { term }), anchor, about, ...rest]);
      else if (isSection && canFetch) cards.set(key, [page, title.split(" > ")[0], "", about, ...rest]);
      else cards.set(key, [page, title, anchor, about, ...rest]);
    }
    return [...cards.values()].reverse();
  };

  const escaped = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const spelled = (word) => (LANGUAGE === "tr" ? word.replace(/i|[kpçt]$/g, (letter) => TURKISH[letter]) : escaped(word));
  const pattern = (word) => isPaired(word)
    ? new RegExp(word)
    : new RegExp(`(?<![\\p{L}\\p{N}])${spelled(word)}${word.length < LEAST ? "(?![\\p{L}\\p{N}])" : ""}`, "iu");
  const plain = (element) => element.textContent.replace(/\s+/g, " ").trim();

  function element(name, text, kind = "") {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  // Where a word begins behind a place, and where one ends before it; at the place itself without spaces.
  function nextWord(text, place) {
    const space = text.indexOf(" ", place);
    return space < 0 || space > place + MOST_LETTERS ? Math.ceil(place) : space + 1;
  }

  function lastWord(text, place) {
    const space = text.lastIndexOf(" ", place);
    return space < place - MOST_LETTERS ? place : space;
  }

  // What is quoted of a text: from a bit before the first of the words.
  function quoted(text, patterns) {
    const places = patterns.map((one) => text.search(one)).filter((place) => place >= 0);
    const first = Math.max(Math.min(...places, text.length) - 0.4 * LENGTH, 0);
    const start = first && places.length ? nextWord(text, first) : 0;
    const end = start + LENGTH < text.length ? lastWord(text, start + LENGTH) : text.length;
    const words = text.slice(start, end);
    return element("p", `${start ? "… " : ""}${words}${end < text.length ? " …" : ""}`, "context");
  }

  // The headings of a section, from below the page's title.
  function path(section) {
    const heading = plain(section.querySelector(":scope > :is(h1, h2, h3, h4)"));
    const above = section.parentElement.closest("section[id]");
    return above?.querySelector(":scope > :is(h2, h3)") ? `${path(above)} › ${heading}` : heading;
  }

  // The sections of a page, those first in which most words stand, in headings above all.
  function ranked(article, patterns, preferred) {
    const found = new Map();
    for (const block of article.querySelectorAll(BLOCKS)) {
      const section = block.closest("section[id]");
      if (!section || block.querySelector(BLOCKS)) continue;
      const text = plain(block);
      const hits = patterns.filter((one) => one.test(text)).length;
      if (!hits) continue;
      const isHeading = /^H\d/.test(block.tagName);
      const one = found.get(section) ?? { section, score: 0, best: 0, text: "" };
      const isTaught = [...block.querySelectorAll("strong")].some((bold) => patterns.some((one) => one.test(bold.textContent)));
      const weight = hits ** 2 * (isHeading || isTaught ? 8 : block.tagName === "PRE" ? 0.3 : 1);
      one.score += weight;
      const said = block.tagName === "PRE" ? block.textContent.split("\n").find((line) => patterns.some((p) => p.test(line))) : text;
      if (!isHeading && weight > one.best) Object.assign(one, { best: weight, text: (said ?? text).trim() });
      found.set(section, one);
    }
    for (const one of found.values()) if (preferred.includes(one.section.id)) one.score += 100;
    return [...found.values()].sort((a, b) => b.score - a.score).slice(0, MOST);
  }

  Search.makeSearchSummary = (html, keywords, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article") ?? page.body;
    const unread = ".headerlink, script, style, svg, math annotation, .d2l-guess, .copybtn, .d2l-terms, .d2l-edition";
    article.querySelectorAll(unread).forEach((one) => one.remove());
    const text = article.textContent.toLowerCase();
    const areThere = wholes.length && wholes.every((word) => text.includes(word));
    const words = areThere ? [...[...keywords].filter((word) => !isPaired(word)), ...wholes] : [...keywords];
    const patterns = words.map(pattern);
    const place = anchor && page.getElementById(decodeURIComponent(anchor.slice(1)));
    if (place) {
      let said = place;
      while (said?.matches("dt")) said = said.nextElementSibling;
      return quoted(plain(said ?? place), said === place ? patterns : []);
    }
    const name = /DOCUMENTATION_OPTIONS\.pagename = '([^']+)'/.exec(html)?.[1] ?? "";
    const found = ranked(article, patterns, sections.get(name) ?? []);
    const list = element("ul", "", "d2l-hits");
    for (const { section, text } of found) {
      const item = element("li", "");
      if (section.parentElement.closest("section[id]")) {
        const link = element("a", path(section));
        link.href = `${name}.html#${section.id}`; // both are below the folder of the page that searches
        item.append(link);
      }
      if (text) item.append(quoted(text, patterns));
      list.append(item);
    }
    return list;
  };
})();
