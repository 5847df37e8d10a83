/** A cell that a reader wants to run, and those that run first. */
class Batch {
  constructor(items, wanted) {
    const known = kept(SECONDS);
    Object.assign(this, { items, wanted, done: 0, spent: 0 });
    this.before = items.length - 1;
    this.expected = items.slice(0, -1).reduce((sum, item) => sum + known[digest(item.source)], 0);  // NaN: not known
  }

  /** Tell at the wanted cell how far those before it are. */
  tell(milliseconds) {
    const values = { n: this.done + 1, all: this.before, seconds: inSeconds(this.spent + milliseconds),
      expected: inSeconds(this.expected) };
    if (this.wanted?.said) this.wanted.said.textContent = this.expected >= 0
      ? say("Cell {n} of {all} that run first; {seconds} s, the last time {expected} s in all", values)
      : say("Cell {n} of {all} that run first; {seconds} s so far", values);
  }

  /** Note that one has run; return what there is to say at it. */
  end(item, milliseconds, failed) {
    const seconds = inSeconds(milliseconds);
    this.done += 1;
    this.spent += milliseconds;
    keep(SECONDS, { ...kept(SECONDS), [digest(item.source)]: Math.round(milliseconds) });
    if (failed && this.wanted && item !== this.wanted) this.wanted.said.textContent = say("Not run: a cell before it has failed");
    if (failed) return say("Failed after {seconds} s", { seconds });
    if (item !== this.wanted || !this.before) return say("Ran for {seconds} s", { seconds });
    return say("Ran for {seconds} s, after {n} cells that took {before} s",
      { seconds, n: this.before, before: inSeconds(this.spent - milliseconds) });
  }
}
