/* The simulator's formulas for the calculators, on the numbers of presets.js.

   allReduce: simgpu/network/collective_costs.py, traffic.py. step: one training step of a
   stack of linear layers with DistributedDataParallel and SGD, kernel by kernel as the simulated
   GPUs run it. Tests compare both with the simulator: tests/book/test_calculators.py. */
(() => {
"use strict";
const P = globalThis.d2lPresets, N = P.nccl;
const { kernel, taken, beside } = globalThis.d2lKernels;

/** The share of a tree's rate that sizes in the middle lose, linear in log2. */
function treeCorrection(protocol, bytes) {
  const table = N.treeCorrection[protocol], place = Math.log2(Math.max(bytes, 64) / 64);
  if (place >= table.length) return 1;
  const low = Math.floor(place), left = table[low], right = table[low + 1] ?? 1;
  return left + (right - left) * (place - low);
}

/** Which edges a byte keeps busy, and how many steps follow each other. */
function plan(algorithm, cluster) {
  const board = P.links[cluster.link], g = cluster.perNode, k = cluster.nodes, n = g * k;
  const edges = { host: 0, gpu: 0, nic: 0 };
  const inside = (load) => {
    if (g === 1) return;
    let rate = board.ringRates[g];
    if (board.kind === "host" || !rate) {
      edges.host += g * load / board.hostRate;
      rate = board.kind === "host" ? Math.min(board.rate, board.pcieRate) : board.pcieRate;
    }
    edges.gpu += load / rate;
  };
  const across = (load) => {
    if (k === 1) return;
    const network = P.networks[cluster.network], cards = new Set();
    for (let i = 0; i < g; i++) cards.add(Math.floor(i * network.nics / g));
    edges.nic += load / cards.size / network.rate;
  };
  const overNodes = k === 2 ? 1 : 2, depth = Math.floor(Math.log2(k));
  let bus = 2, steps;
  if (algorithm === "ring") {
    bus = 2 * (n - 1) / n;
    inside(bus);
    across(bus);
    steps = [2 * (n - k), 2 * (k - 1)];
  } else {
    inside(algorithm === "tree" ? 2 : 1 + 1 / g);
    across(overNodes);
    steps = [algorithm === "tree" ? 2 * (g - 1) : 1, 2 * depth];
  }
  return { slowest: Math.max(...Object.values(edges)), bus, inside: steps[0], across: steps[1] };
}

function price(bytes, cluster, algorithm, protocol) {
  const board = P.links[cluster.link], k = cluster.nodes, found = plan(algorithm, cluster);
  const switches = k > 1 ? P.networks[cluster.network].latency : 0;
  if (algorithm.startsWith("nvls")) {
    const latency = N.inSwitch + found.across * (N.inSwitchNet + switches);
    return latency + bytes * found.slowest / board.inSwitch;
  }
  let perByte = found.slowest / N.efficiency[algorithm][protocol][k > 1 ? 1 : 0];
  if (protocol === "LL") {
    perByte = Math.max(perByte, found.bus / N.llRate[board.generation][Math.min(k, 3) - 1]);
  }
  if (algorithm === "tree") perByte /= treeCorrection(protocol, bytes);
  let inside = N.step[board.hardware][algorithm][protocol];
  if (algorithm === "ring" && k > 1) inside = Math.max(inside, N.netOverhead[protocol]);
  const across = N.step.net[algorithm][protocol] + switches;
  const latency = N.base[algorithm][protocol] + found.inside * inside + found.across * across;
  return latency + bytes * perByte;
}

/** Seconds of an all-reduce of that many bytes on {link, perNode, nodes, network}. */
function allReduce(bytes, cluster) {
  const board = P.links[cluster.link], g = cluster.perNode, k = cluster.nodes;
  if (g * k === 1) return { seconds: 0, algorithm: "none" };
  const protocols = board.hardware === "nvlink" ? ["LL", "LL128", "Simple"] : ["LL", "Simple"];
  const options = ["ring", "tree"].flatMap((a) => protocols.map((p) => [a, p]));
  if (board.inSwitch && k === 1 && g >= N.inSwitchFrom) options.push(["nvls", "Simple"]);
  if (board.inSwitch && k > 1 && g > 1) options.push(["nvls_tree", "Simple"]);
  const found = options.map(([algorithm, protocol]) =>
    ({ seconds: price(bytes, cluster, algorithm, protocol), algorithm, protocol }));
  return found.reduce((best, next) => (next.seconds < best.seconds ? next : best));
}

/** One step of {width, layers, batch (of each GPU), dtype, gpu, link, perNode, nodes, network,
    bucket (bytes)}: seconds, and what ran when. */
function step(input) {
  const { width: w, layers, batch: b, dtype } = input, gpu = P.gpus[input.gpu];
  const item = dtype === "tf32" ? 4 : P.itemBytes[dtype], ranks = input.perNode * input.nodes;
  const weights = w * w * item, activations = b * w * item, spans = [];
  let now = 0, host = 0, comm = 0;
  const channels = input.perNode > 1 ? P.links[input.link].channels : P.contention.networkChannels;
  const collectives = [];
  const run = (kind, bytes, product) => {
    host += gpu.launch;
    const start = Math.max(now, host);
    now = start + beside(kernel(gpu, { product, bytes, dtype }), start, collectives);
    spans.push({ lane: "compute", kind, start, end: now });
  };
  for (let i = 0; i < layers; i++) run("forward", 2 * activations + weights, [b, w, w]);
  run("forward", activations + item);  // the loss: a sum
  run("backward", item);
  const ends = [];  // of the all-reduces, by parameter
  let waiting = 0;
  for (let i = layers - 1; i >= 0; i--) {
    const last = i === layers - 1;  // its gradient of the output is one number, repeated
    const bytes = weights + activations + (last ? item : activations);
    run("backward", bytes, [w, w, b]);  // to the weights, then to what the layer was given
    if (i) run("backward", bytes, [b, w, w]);
    if (ranks === 1) continue;
    run("bucket", 2 * weights);  // divided by the number of ranks, into the bucket
    waiting += 1;
    if (waiting * weights >= input.bucket || !i) {
      host += gpu.collectiveLaunch;
      const start = Math.max(now, comm, host);
      const bytes = waiting * weights, found = allReduce(bytes, input);
      comm = start + found.seconds;
      spans.push({ lane: "comm", kind: "all-reduce", start, end: comm });
      collectives.push({ start, end: comm, taken: taken(gpu, found, { bytes, ranks, channels }) });
      for (; waiting; waiting--) ends.push(comm);
    }
  }
  let exposed = 0;
  for (const end of ends) {
    exposed += Math.max(end - now, 0);
    now = Math.max(now, end);
    run("bucket", 2 * weights);  // out of the bucket
  }
  run("optimizer", 3 * layers * weights);
  const communicates = spans.filter((s) => s.lane === "comm").reduce((sum, s) => sum + s.end - s.start, 0);
  return { seconds: now, spans, exposed, communicates };
}

/** Speed-up on k GPUs: strong keeps the batch of all GPUs together, weak that of each. */
function scaling(input, counts, strong) {
  const one = { ...input, perNode: 1, nodes: 1 };
  const alone = step(one).seconds;
  return counts.map((k) => {
    const cluster = { perNode: Math.min(k, 8), nodes: Math.ceil(k / 8) };
    const batch = strong ? input.batch / k : input.batch;
    const { seconds } = step({ ...input, ...cluster, batch });
    return { k, seconds, speedup: (strong ? 1 : k) * alone / seconds };
  });
}

globalThis.d2lModel = { allReduce, step, scaling };
})();
