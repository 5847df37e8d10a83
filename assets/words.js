// What scripts say to readers, in the language of the page: tools/words.py has the same for the tools.
window.BOOK_WORDS = {};

// The string in the page's language, with the values of its {fields}.
window.say = (english, values = {}) => (window.BOOK_WORDS[english] ?? english)
  .replace(/\{(\w+)\}/g, (field, name) => (name in values ? values[name] : field));
