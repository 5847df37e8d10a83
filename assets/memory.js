/* What a training step allocates at most, on each GPU: a stack of linear layers, as PyTorch runs it.

   stage 0: DistributedDataParallel; 1: with ZeroRedundancyOptimizer; 3: fully_shard of each layer;
   2: the same with reshard_after_forward=False. Tests compare it with the simulated peak:
   tests/book/test_calculators.py. */
(() => {
"use strict";
const STATES = { sgd: 0, momentum: 1, adamw: 2 };  // numbers kept for each parameter

/** Bytes by cause, the peak, and when it is (in the optimiser's step, at the end of the backward pass,
    where the forward pass turns into it), for {width, layers, batch, gpus, stage, optimizer, precision}. */
function memory(input) {
  const { width, layers, batch, gpus } = input, stage = gpus > 1 ? input.stage : 0;
  const mixed = input.precision === "mixed", stored = input.precision === "bfloat16" ? 2 : 4;
  const p = width * width * stored;  // a layer's weights as they are kept,
  const w = mixed ? p / 2 : p;  // and as they are multiplied
  const a = batch * width * (mixed ? 2 : stored);  // what a layer hands to the next
  const cast = mixed && stage < 2;  // autocast keeps what it has cast until the backward pass
  const inputs = cast ? 2 * a : a;
  const weights = stage >= 2 ? layers * p / gpus : layers * p;
  const gradients = weights, buckets = gpus > 1 && stage < 2 ? layers * p : 0;
  const own = stage >= 2 ? layers / gpus : stage === 1 ? Math.ceil(layers / gpus) : layers;
  const states = STATES[input.optimizer] * own * p;
  const rest = weights + states + buckets + inputs;
  const scratch = input.optimizer === "adamw" ? own * p : 0;
  const step = rest + gradients + scratch;
  const kept = (layers - 1) * a + (cast ? a : 0);  // activations
  let gathered = 0;
  if (cast) gathered = (layers - 1) * w;
  if (stage === 2) gathered = layers * w;
  const forward = rest + kept + gathered;
  // In the backward pass each layer done adds its gradient and frees its activation; the first and
  // the last one but one are the extremes, since what changes is the same for each.
  const most = (change, first = 0) => Math.max(first * change, (layers - 2) * change);
  const reduced = mixed ? w / gpus : 0;  // a shard of bfloat16 gradients, before it is cast
  let top;
  if (stage === 3) {
    top = Math.max(3 * w, a + 2 * w, 4 * w + 2 * a + most(p / gpus - a, 1));
    top = Math.max(top, rest + gradients + reduced + 2 * w - forward);
  } else if (stage === 2) {
    top = Math.max(2 * w, a + w, w + a + p / gpus, w + p / gpus + reduced);
  } else if (cast) {
    top = Math.max(3 * a, Math.max(2 * a + w, p) + most(p - w - a));
    top = Math.max(top, rest + layers * p + w - forward);
  } else {
    top = Math.max(p + a, p + 2 * a + most(p - a, 1), rest + layers * p + a - forward);
  }
  const late = stage === 3 ? p / gpus > a : stage < 2 && p - (cast ? w : 0) > a;
  const peak = Math.max(forward + top, step), constant = { weights, states, buckets };
  const held = late ? 0 : kept + inputs;  // late in the backward pass, activations are gone
  const more = late && cast ? 0 : gathered;
  const parts = peak === step ? { ...constant, gradients, activations: inputs, work: scratch }
    : { ...constant, activations: held, gathered: more,
      work: peak - weights - states - buckets - held - more };
  return { peak, parts, parameters: layers * width * width,
    when: peak === step ? "step" : late ? "end" : "turn" };
}

globalThis.d2lMemory = memory;
})();
