/* Which published steps are near to a run, and what share of the peak it reaches: the formulas of
   simgpu/compare/published.py and of Model.flops in simgpu/plan/step/job.py. */
globalThis.d2lNearest = (() => {
"use strict";
const published = globalThis.d2lPublished;
const rows = published.rows.map((row) => Object.fromEntries(published.columns.map((name, i) => [name, row[i]])));

/** How far two runs are from each other; 0 if no size differs. */
function distance(a, b) {
  let far = 0;
  for (const size of ["billions", "gpus", "sequence"]) far += Math.abs(Math.log2(a[size] / b[size]));
  if (a.gpu !== b.gpu) far += published.other.gpu;
  return far + (a.experts !== b.experts ? published.other.kind : 0);
}

/** The nearest published rows, each with its distance, the nearest first. */
function nearest(run, count = 3) {
  const all = rows.map((row) => ({ ...row, distance: distance(run, row) }));
  return all.sort((a, b) => a.distance - b.distance).slice(0, count);
}

/** The peak of a GPU for a model's products, in FLOP/s. */
function peak(gpu) {
  const { flops } = globalThis.d2lPresets.gpus[gpu];
  return flops.bfloat16 > flops.float32 ? flops.bfloat16 : flops.float16;
}

/** FLOPs of a token, forward and backward; of sizes alone, without those of attention's scores. */
function flops(run) {
  const model = published.models[run.model];
  return model ? model.flops[0] + model.flops[1] * run.sequence : 6e9 * run.active;
}

const mfu = (run) => run.rate * flops(run) / (run.gpus * peak(run.gpu));

/** The command that simulates the run. */
function command(run) {
  return `simgpu compare ${run.model || "model.json"} --gpus ${run.gpus} --gpu ${run.gpu} `
    + `--sequence ${run.sequence} --tokens-per-second ${run.rate}`;
}

return { nearest, mfu, command };
})();
