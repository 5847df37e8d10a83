// What the search shows first: the page that teaches a word, then chapters, then what has only sources.
const LATER = { references: -50, "chapters/other-editions": -20, "chapters/accuracies": -10 };
const TAUGHT = {
  "allreduce": "collectives", "all-reduce": "collectives", "nccl": "collectives",
  "data loader": "feeding", "dataloader": "feeding", "num_workers": "feeding",
  "pinned memory": "auto-parallelism", "pinned": "auto-parallelism", "stream": "auto-parallelism",
  "torchrun": "multiple-gpus-concise", "ddp": "multiple-gpus-concise", "bucket": "overlap-and-scaling",
  "oom": "memory-and-sharding", "out of memory": "memory-and-sharding", "fsdp": "memory-and-sharding",
  "gpipe": "pipeline-parallelism", "ring attention": "long-sequences", "roofline": "devices",
  "moe": "experts", "mixture of experts": "experts", "expert parallelism": "experts",
};
const ASKED = (new URLSearchParams(location.search).get("q") || "").trim().toLowerCase().replaceAll("i\u0307", "i");
// In other languages a term goes by all its names, among which is the English one (tools/editions/site.py).
const NAMES = () => (window.BOOK_TERMS || []).map((names) => names.map((name) => name.toLowerCase())).find((names) => names.includes(ASKED)) || [ASKED];
const TAUGHT_ON = () => NAMES().map((name) => TAUGHT[name]).find(Boolean);
var Scorer = {
  score: ([docname, title, anchor, description, score]) =>
    score + (LATER[docname] || 0) + ("chapters/" + TAUGHT_ON() === docname ? 40 : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
