/* The simulator's formulas for the calculators, on the numbers of presets.js.

   allReduce: simgpu/network/collective_costs.py, nccl_model.py, measured.py, traffic.py. step: one training step of a
   stack of linear layers with DistributedDataParallel and SGD, kernel by kernel as the simulated
   GPUs run it. Tests compare both with the simulator: tests/book/test_calculators.py. */
(() => {
"use strict";
const P = globalThis.d2lPresets, N = P.nccl, MEASURED = P.measured;
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
    inside(algorithm === "tree" ? 2 : (1 + 1 / g) / board.inSwitch);
    across(overNodes);
    steps = [algorithm === "tree" ? 2 * (g - 1) : 1, 2 * depth];
  }
  return { slowest: Math.max(...Object.values(edges)), bus, inside: steps[0], across: steps[1] };
}

const cpu = (cluster) =>
  (cluster.nodes > 1 && P.networks[cluster.network].cpu) || P.links[cluster.link].cpu;

/** Seconds that all steps take without their bytes. */
function latency(bytes, cluster, algorithm, protocol, found) {
  const board = P.links[cluster.link], g = cluster.perNode, k = cluster.nodes;
  const switches = k > 1 ? P.networks[cluster.network].latency : 0;
  if (algorithm.startsWith("nvls")) return N.inSwitch + found.across * (N.inSwitchNet + switches);
  let inside = N.step[board.hardware][algorithm][protocol];
  if (algorithm === "ring" && k > 1) inside = Math.max(inside, N.posts[cpu(cluster)][protocol]);
  const across = N.step.net[g === 1 ? "tree" : algorithm][protocol] + switches;
  const steps = N.base[algorithm][protocol] + found.inside * inside + found.across * across;
  const plateau = algorithm === "ring" && protocol === "Simple" && k > 1
    && Math.floor(bytes / (board.channels * g * k)) >= N.plateauFrom;
  return steps * (plateau ? N.plateau[board.generation] : 1);
}

/** Seconds for each byte: those of the busiest edge, and what the protocol adds. */
function secondsPerByte(bytes, cluster, algorithm, protocol, found) {
  const board = P.links[cluster.link], g = cluster.perNode, k = cluster.nodes, n = g * k;
  const more = k > 2 ? 1 : 0;
  if (algorithm === "nvls") return found.slowest;
  if (algorithm === "nvls_tree") {
    const rate = g * N.inSwitchTreeRate[board.generation][more];
    return Math.max(found.slowest, 2 * (n - 1) / n / rate);
  }
  let perByte = found.slowest / N.efficiency[algorithm][protocol][k > 1 ? 1 : 0];
  if (protocol === "LL") {
    const rate = k > 1 ? N.llRateOverNodes[cpu(cluster)][more] : N.llRate[board.generation];
    perByte = Math.max(perByte, found.bus / rate);
  }
  return algorithm === "tree" ? perByte / treeCorrection(protocol, bytes) : perByte;
}

/** Thread blocks that a large message occupies on each GPU. */
function mostChannels(cluster) {
  return cluster.perNode === 1 ? P.contention.networkChannels : P.links[cluster.link].channels;
}

/** What NCCL expects, and the seconds that it takes. */
function price(bytes, cluster, algorithm, protocol) {
  const board = P.links[cluster.link], found = plan(algorithm, cluster);
  const start = latency(bytes, cluster, algorithm, protocol, found);
  const wire = bytes * secondsPerByte(bytes, cluster, algorithm, protocol, found);
  const links = plan("ring", cluster).slowest;
  const fill = MEASURED.fill * mostChannels(cluster) * Math.max(Math.floor(Math.log2(cluster.nodes)), 1);
  const added = links * (bytes * (1 / MEASURED.wire - 1) + fill * bytes / (bytes + fill));
  const expected = algorithm === "nvls" ? bytes / board.inSwitchRates[cluster.perNode] : wire;
  return { expected: start + expected, seconds: start + wire + added };
}

/** Thread blocks that a message occupies on each GPU. */
function channels(bytes, cluster, algorithm, protocol) {
  const board = P.links[cluster.link], n = cluster.perNode * cluster.nodes;
  if (cluster.perNode === 1 || algorithm.startsWith("nvls")) return mostChannels(cluster);
  const each = N.threads[protocol] * N.threadBytes[protocol] * (protocol === "LL" ? n : 1);
  return Math.max(1, Math.min(board.channels, Math.floor(bytes / each)));
}

/** Seconds of an all-reduce of that many bytes on {link, perNode, nodes, network}. */
function allReduce(bytes, cluster) {
  const board = P.links[cluster.link], g = cluster.perNode, k = cluster.nodes;
  if (g * k === 1) return { seconds: 0, algorithm: "none", channels: 0 };
  const whole = board.hardware === "nvlink" && (k === 1 || P.networks[cluster.network].ordered);
  const protocols = whole ? ["LL", "LL128", "Simple"] : ["LL", "Simple"];
  const options = ["ring", "tree"].flatMap((a) => protocols.map((p) => [a, p]));
  if (board.inSwitch && k === 1) options.push(["nvls", "Simple"]);
  if (board.inSwitch && k > 1 && g > 1) options.push(["nvls_tree", "Simple"]);
  const found = options.map(([algorithm, protocol]) => ({
    ...price(bytes, cluster, algorithm, protocol), algorithm, protocol,
    channels: channels(bytes, cluster, algorithm, protocol),
  }));
  return found.reduce((best, next) => (next.expected < best.expected ? next : best));
}

/** One step of {width, layers, batch (of each GPU), dtype, gpu, link, perNode, nodes, network,
    bucket (bytes)}: seconds, and what ran when. */
function step(input) {
  const { width: w, layers, batch: b, dtype } = input, gpu = P.gpus[input.gpu];
  const item = dtype === "tf32" ? 4 : P.itemBytes[dtype], ranks = input.perNode * input.nodes;
  const weights = w * w * item, activations = b * w * item, spans = [];
  let now = 0, host = 0, comm = 0;
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
      collectives.push({ start, end: comm, taken: taken(gpu, found, { bytes, ranks }) });
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
