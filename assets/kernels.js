/* How long a kernel takes on the numbers of presets.js, alone and beside a collective.

   Formulas of simgpu/hardware/specs.py, matmul_efficiency.py and simgpu/clock/
   contention.py; tests compare them with the simulator: tests/book/test_calculators.py. */
(() => {
"use strict";
const P = globalThis.d2lPresets, M = P.matmul;

const tileRate = ([rows, columns]) => {
  const intensity = rows * columns / (rows + columns);
  return intensity / (intensity + M.tileLoss);
};

/** The share that one choice of tile and of parts of the depth loses nothing of. */
function share([m, n, k], multiprocessors, tile, parts) {
  const tiles = parts * Math.ceil(m / tile[0]) * Math.ceil(n / tile[1]);
  const waves = Math.ceil(tiles / multiprocessors), depth = k / parts;
  const used = parts * m * n / (waves * multiprocessors * tile[0] * tile[1]);
  return used * tileRate(tile) / tileRate(M.tiles[0]) * depth / (depth + M.depthLoss);
}

/** The share of the peak that a product (m, k) @ (k, n) reaches on tensor cores; else the usual one. */
function efficiency(gpu, dtype, product) {
  if (!product || gpu.flops[dtype] <= gpu.flops.float32) return gpu.computeEfficiency;
  if (Math.min(...product) < M.thin) return gpu.matmulEfficiency;
  const splits = M.splits.filter((parts) => parts <= product[2]);
  const shares = M.tiles.flatMap((tile) => splits.map((parts) => share(product, gpu.multiprocessors, tile, parts)));
  return gpu.matmulEfficiency * Math.max(...shares);
}

/** Seconds of one kernel, as a function of the shares of the GPU that a collective takes. */
function kernel(gpu, { product, bytes, dtype }) {
  const flops = product ? 2 * product[0] * product[1] * product[2] : 0;
  const arithmetic = flops / (gpu.flops[dtype] * efficiency(gpu, dtype, product));
  const traffic = bytes / (gpu.bandwidth * gpu.memoryEfficiency);
  return ({ multiprocessors, memory }) =>
    gpu.kernel + Math.max(arithmetic / (1 - multiprocessors), traffic / (1 - memory));
}

const NOTHING = { multiprocessors: 0, memory: 0 };

/** What an all-reduce of {seconds, algorithm, channels} and `bytes` on `ranks` GPUs takes of each of them. */
function taken(gpu, { seconds, algorithm, channels }, { bytes, ranks }) {
  const inSwitch = algorithm.startsWith("nvls");  // else sent, received, added
  const traffic = bytes * (inSwitch ? 2 : 5 * (ranks - 1) / ranks);
  return {
    multiprocessors: Math.min(channels / gpu.multiprocessors, P.contention.most),
    memory: Math.min(traffic / (seconds * gpu.bandwidth * gpu.memoryEfficiency), P.contention.most),
  };
}

/** Seconds of a kernel that starts at `start`, beside collectives {start, end, taken}. */
function beside(work, start, collectives) {
  let now = start, left = 1;
  for (const other of collectives) {  // one after the other: they share a stream
    if (other.end <= now) continue;
    for (const [until, shares] of [[other.start, NOTHING], [other.end, other.taken]]) {
      if (until <= now) continue;
      const alone = work(shares);
      if (now + left * alone <= until) return now - start + left * alone;
      left -= (until - now) / alone;
      now = until;
    }
  }
  return now - start + left * work(NOTHING);
}

globalThis.d2lKernels = { efficiency, kernel, taken, beside };
})();
