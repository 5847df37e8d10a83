/* Written by `python -m tools.presets` from simgpu.hardware; do not edit. */
globalThis.d2lPresets = {
 "gpus": {
  "v100": {
   "name": "Tesla V100 SXM2 16GB",
   "flops": {
    "float64": 7800000000000.0,
    "float32": 15700000000000.0,
    "tf32": 15700000000000.0,
    "bfloat16": 15700000000000.0,
    "float16": 125000000000000.0
   },
   "memory": 17179869184,
   "bandwidth": 900000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 80,
   "memoryEfficiency": 0.8,
   "link": "nvlink2"
  },
  "a100": {
   "name": "A100 SXM4 80GB",
   "flops": {
    "float64": 19500000000000.0,
    "float32": 19500000000000.0,
    "tf32": 156000000000000.0,
    "bfloat16": 312000000000000.0,
    "float16": 312000000000000.0,
    "int8": 624000000000000.0
   },
   "memory": 85899345920,
   "bandwidth": 2039000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.869,
   "multiprocessors": 108,
   "memoryEfficiency": 0.8,
   "link": "nvlink3"
  },
  "a100-40gb": {
   "name": "A100 SXM4 40GB",
   "flops": {
    "float64": 19500000000000.0,
    "float32": 19500000000000.0,
    "tf32": 156000000000000.0,
    "bfloat16": 312000000000000.0,
    "float16": 312000000000000.0,
    "int8": 624000000000000.0
   },
   "memory": 42949672960,
   "bandwidth": 1555000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.869,
   "multiprocessors": 108,
   "memoryEfficiency": 0.8,
   "link": "nvlink3"
  },
  "h100": {
   "name": "H100 80GB HBM3",
   "flops": {
    "float64": 66900000000000.01,
    "float32": 66900000000000.01,
    "tf32": 494700000000000.0,
    "bfloat16": 989400000000000.0,
    "float16": 989400000000000.0,
    "float8": 1978900000000000.0,
    "int8": 1978900000000000.0
   },
   "memory": 85899345920,
   "bandwidth": 3350000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.803,
   "multiprocessors": 132,
   "memoryEfficiency": 0.8,
   "link": "nvlink4"
  },
  "h800": {
   "name": "H800",
   "flops": {
    "float64": 1000000000000.0,
    "float32": 66900000000000.01,
    "tf32": 494700000000000.0,
    "bfloat16": 989400000000000.0,
    "float16": 989400000000000.0,
    "float8": 1978900000000000.0,
    "int8": 1978900000000000.0
   },
   "memory": 85899345920,
   "bandwidth": 3350000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.803,
   "multiprocessors": 132,
   "memoryEfficiency": 0.8,
   "link": "nvlink4_400"
  },
  "h20": {
   "name": "H20",
   "flops": {
    "float64": 1000000000000.0,
    "float32": 44000000000000.0,
    "tf32": 74000000000000.0,
    "bfloat16": 148000000000000.0,
    "float16": 148000000000000.0,
    "float8": 296000000000000.0,
    "int8": 296000000000000.0
   },
   "memory": 103079215104,
   "bandwidth": 4000000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 78,
   "memoryEfficiency": 0.8,
   "link": "nvlink4"
  },
  "h200": {
   "name": "H200",
   "flops": {
    "float64": 66900000000000.01,
    "float32": 66900000000000.01,
    "tf32": 494700000000000.0,
    "bfloat16": 989400000000000.0,
    "float16": 989400000000000.0,
    "float8": 1978900000000000.0,
    "int8": 1978900000000000.0
   },
   "memory": 151397597184,
   "bandwidth": 4800000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.803,
   "multiprocessors": 132,
   "memoryEfficiency": 0.8,
   "link": "nvlink4"
  },
  "gh200": {
   "name": "GH200 480GB",
   "flops": {
    "float64": 66900000000000.01,
    "float32": 66900000000000.01,
    "tf32": 494700000000000.0,
    "bfloat16": 989400000000000.0,
    "float16": 989400000000000.0,
    "float8": 1978900000000000.0,
    "int8": 1978900000000000.0
   },
   "memory": 103079215104,
   "bandwidth": 4000000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.838,
   "multiprocessors": 132,
   "memoryEfficiency": 0.8,
   "link": "nvlink4_c2c"
  },
  "b200": {
   "name": "B200",
   "flops": {
    "float64": 37000000000000.0,
    "float32": 75000000000000.0,
    "tf32": 1125000000000000.0,
    "bfloat16": 2250000000000000.0,
    "float16": 2250000000000000.0,
    "float8": 4500000000000000.0,
    "int8": 4500000000000000.0
   },
   "memory": 193273528320,
   "bandwidth": 7700000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.776,
   "multiprocessors": 148,
   "memoryEfficiency": 0.8,
   "link": "nvlink5"
  },
  "b300": {
   "name": "B300 SXM6 AC",
   "flops": {
    "float64": 1250000000000.0,
    "float32": 75000000000000.0,
    "tf32": 1125000000000000.0,
    "bfloat16": 2250000000000000.0,
    "float16": 2250000000000000.0,
    "float8": 4500000000000000.0
   },
   "memory": 287762808832,
   "bandwidth": 8000000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.786,
   "multiprocessors": 148,
   "memoryEfficiency": 0.8,
   "link": "nvlink5"
  },
  "k80": {
   "name": "Tesla K80",
   "flops": {
    "float64": 1455000000000.0,
    "float32": 4370000000000.0,
    "tf32": 4370000000000.0,
    "bfloat16": 4370000000000.0,
    "float16": 4370000000000.0
   },
   "memory": 12884901888,
   "bandwidth": 240000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 13,
   "memoryEfficiency": 0.8,
   "link": "pcie3"
  },
  "t4": {
   "name": "Tesla T4",
   "flops": {
    "float64": 254000000000.0,
    "float32": 8100000000000.0,
    "tf32": 8100000000000.0,
    "bfloat16": 8100000000000.0,
    "float16": 65000000000000.0,
    "int8": 130000000000000.0
   },
   "memory": 17179869184,
   "bandwidth": 320000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 40,
   "memoryEfficiency": 0.8,
   "link": "pcie3"
  },
  "a10": {
   "name": "A10",
   "flops": {
    "float64": 487500000000.0,
    "float32": 31200000000000.0,
    "tf32": 62500000000000.0,
    "bfloat16": 125000000000000.0,
    "float16": 125000000000000.0,
    "int8": 250000000000000.0
   },
   "memory": 25769803776,
   "bandwidth": 600000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 72,
   "memoryEfficiency": 0.8,
   "link": "pcie4"
  },
  "a40": {
   "name": "A40",
   "flops": {
    "float64": 584000000000.0,
    "float32": 37400000000000.0,
    "tf32": 74800000000000.0,
    "bfloat16": 149700000000000.0,
    "float16": 149700000000000.0,
    "int8": 299300000000000.0
   },
   "memory": 51539607552,
   "bandwidth": 696000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 84,
   "memoryEfficiency": 0.8,
   "link": "pcie4"
  },
  "a100pcie": {
   "name": "A100 80GB PCIe",
   "flops": {
    "float64": 19500000000000.0,
    "float32": 19500000000000.0,
    "tf32": 156000000000000.0,
    "bfloat16": 312000000000000.0,
    "float16": 312000000000000.0,
    "int8": 624000000000000.0
   },
   "memory": 85899345920,
   "bandwidth": 1935000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.811,
   "multiprocessors": 108,
   "memoryEfficiency": 0.8,
   "link": "pcie4"
  },
  "a100pcie-40gb": {
   "name": "A100 PCIE 40GB",
   "flops": {
    "float64": 19500000000000.0,
    "float32": 19500000000000.0,
    "tf32": 156000000000000.0,
    "bfloat16": 312000000000000.0,
    "float16": 312000000000000.0,
    "int8": 624000000000000.0
   },
   "memory": 42949672960,
   "bandwidth": 1555000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.811,
   "multiprocessors": 108,
   "memoryEfficiency": 0.8,
   "link": "pcie4"
  },
  "l4": {
   "name": "L4",
   "flops": {
    "float64": 473000000000.0,
    "float32": 30300000000000.0,
    "tf32": 60000000000000.0,
    "bfloat16": 121000000000000.0,
    "float16": 121000000000000.0,
    "float8": 242500000000000.0,
    "int8": 242500000000000.0
   },
   "memory": 25769803776,
   "bandwidth": 300000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 58,
   "memoryEfficiency": 0.8,
   "link": "pcie4"
  },
  "l40s": {
   "name": "L40S",
   "flops": {
    "float64": 1430000000000.0,
    "float32": 91600000000000.0,
    "tf32": 183000000000000.0,
    "bfloat16": 362050000000000.0,
    "float16": 362050000000000.0,
    "float8": 733000000000000.0,
    "int8": 733000000000000.0
   },
   "memory": 51539607552,
   "bandwidth": 864000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 142,
   "memoryEfficiency": 0.8,
   "link": "pcie4"
  },
  "h100pcie": {
   "name": "H100 PCIe",
   "flops": {
    "float64": 51000000000000.0,
    "float32": 51000000000000.0,
    "tf32": 378000000000000.0,
    "bfloat16": 756000000000000.0,
    "float16": 756000000000000.0,
    "float8": 1513000000000000.0,
    "int8": 1513000000000000.0
   },
   "memory": 85899345920,
   "bandwidth": 2039000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 114,
   "memoryEfficiency": 0.8,
   "link": "pcie5:2xsapphire-rapids"
  },
  "h100nvl": {
   "name": "H100 NVL",
   "flops": {
    "float64": 60000000000000.0,
    "float32": 60000000000000.0,
    "tf32": 417500000000000.0,
    "bfloat16": 835500000000000.0,
    "float16": 835500000000000.0,
    "float8": 1670500000000000.0,
    "int8": 1670500000000000.0
   },
   "memory": 100931731456,
   "bandwidth": 3900000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 132,
   "memoryEfficiency": 0.8,
   "link": "pcie5_bridge600:2xsapphire-rapids"
  },
  "a6000": {
   "name": "RTX A6000",
   "flops": {
    "float64": 605000000000.0,
    "float32": 38700000000000.0,
    "tf32": 77400000000000.0,
    "bfloat16": 154800000000000.0,
    "float16": 154800000000000.0,
    "int8": 309700000000000.0
   },
   "memory": 51539607552,
   "bandwidth": 768000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 84,
   "memoryEfficiency": 0.8,
   "link": "pcie4"
  },
  "rtx6000ada": {
   "name": "RTX 6000 Ada Generation",
   "flops": {
    "float64": 1420000000000.0,
    "float32": 91100000000000.0,
    "tf32": 182100000000000.0,
    "bfloat16": 364200000000000.0,
    "float16": 364200000000000.0,
    "float8": 728500000000000.0,
    "int8": 728500000000000.0
   },
   "memory": 51539607552,
   "bandwidth": 960000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 142,
   "memoryEfficiency": 0.8,
   "link": "pcie4"
  },
  "rtxpro6000": {
   "name": "RTX PRO 6000 Blackwell Workstation Edition",
   "flops": {
    "float64": 1970000000000.0,
    "float32": 125950000000000.0,
    "tf32": 251900000000000.0,
    "bfloat16": 503800000000000.0,
    "float16": 503800000000000.0,
    "float8": 1007600000000000.0,
    "int8": 1007600000000000.0
   },
   "memory": 103079215104,
   "bandwidth": 1792000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 188,
   "memoryEfficiency": 0.8,
   "link": "pcie5:2xsapphire-rapids"
  },
  "rtx3090": {
   "name": "GeForce RTX 3090",
   "flops": {
    "float64": 556000000000.0,
    "float32": 35600000000000.0,
    "tf32": 35600000000000.0,
    "bfloat16": 71000000000000.0,
    "float16": 71000000000000.0,
    "int8": 284000000000000.0
   },
   "memory": 25769803776,
   "bandwidth": 936000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 82,
   "memoryEfficiency": 0.8,
   "link": "pcie4_staged"
  },
  "rtx4090": {
   "name": "GeForce RTX 4090",
   "flops": {
    "float64": 1290000000000.0,
    "float32": 82600000000000.0,
    "tf32": 82600000000000.0,
    "bfloat16": 165200000000000.0,
    "float16": 165200000000000.0,
    "float8": 330300000000000.0,
    "int8": 660600000000000.0
   },
   "memory": 25769803776,
   "bandwidth": 1008000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 128,
   "memoryEfficiency": 0.8,
   "link": "pcie4_staged"
  },
  "rtx5090": {
   "name": "GeForce RTX 5090",
   "flops": {
    "float64": 1637000000000.0,
    "float32": 104800000000000.0,
    "tf32": 104800000000000.0,
    "bfloat16": 209500000000000.0,
    "float16": 209500000000000.0,
    "float8": 419000000000000.0,
    "int8": 838000000000000.0
   },
   "memory": 34359738368,
   "bandwidth": 1792000000000.0,
   "launch": 5e-06,
   "collectiveLaunch": 2.5e-05,
   "kernel": 2e-06,
   "computeEfficiency": 0.75,
   "matmulEfficiency": 0.8,
   "multiprocessors": 170,
   "memoryEfficiency": 0.8,
   "link": "pcie5:staged:2xsapphire-rapids"
  }
 },
 "families": [
  [
   "v100",
   "a100",
   "a100-40gb",
   "h100",
   "h800",
   "h20",
   "h200",
   "gh200",
   "b200",
   "b300"
  ],
  [
   "k80",
   "t4",
   "a10",
   "a40",
   "a100pcie",
   "a100pcie-40gb",
   "l4",
   "l40s",
   "h100pcie",
   "h100nvl"
  ],
  [
   "a6000",
   "rtx6000ada",
   "rtxpro6000"
  ],
  [
   "rtx3090",
   "rtx4090",
   "rtx5090"
  ]
 ],
 "links": {
  "pcie3": {
   "kind": "host",
   "hardware": "pci",
   "channels": 2,
   "rate": 12603200000.0,
   "generation": "ampere",
   "hostRate": 80000000000.0,
   "pcieRate": 12603200000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    12603200000.0,
    12603200000.0,
    12603200000.0,
    12603200000.0,
    12603200000.0,
    12603200000.0,
    12603200000.0
   ]
  },
  "pcie4": {
   "kind": "host",
   "hardware": "pci",
   "channels": 2,
   "rate": 25206400000.0,
   "generation": "ampere",
   "hostRate": 80000000000.0,
   "pcieRate": 25206400000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    25206400000.0,
    25206400000.0,
    25206400000.0,
    25206400000.0,
    25206400000.0,
    25206400000.0,
    25206400000.0
   ]
  },
  "pcie5": {
   "kind": "host",
   "hardware": "pci",
   "channels": 2,
   "rate": 50412000000.0,
   "generation": "ampere",
   "hostRate": 80000000000.0,
   "pcieRate": 50412000000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0
   ]
  },
  "pcie4_staged": {
   "kind": "host",
   "hardware": "pci",
   "channels": 2,
   "rate": 25206400000.0,
   "generation": "ampere",
   "hostRate": 80000000000.0,
   "pcieRate": 25206400000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    25206400000.0,
    25206400000.0,
    25206400000.0,
    25206400000.0,
    25206400000.0,
    25206400000.0,
    25206400000.0
   ]
  },
  "pcie4_bridge112": {
   "kind": "mesh",
   "hardware": "nvlink",
   "channels": 4,
   "rate": 12000000000.0,
   "generation": "ampere",
   "hostRate": 80000000000.0,
   "pcieRate": 25206400000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    48000000000.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0
   ]
  },
  "pcie4_bridge600": {
   "kind": "mesh",
   "hardware": "nvlink",
   "channels": 12,
   "rate": 20000000000.0,
   "generation": "ampere",
   "hostRate": 80000000000.0,
   "pcieRate": 25206400000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    240000000000.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0
   ]
  },
  "pcie5_bridge600": {
   "kind": "mesh",
   "hardware": "nvlink",
   "channels": 12,
   "rate": 20600000000.0,
   "generation": "hopper",
   "hostRate": 80000000000.0,
   "pcieRate": 50412000000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    247200000000.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0
   ]
  },
  "nvlink2": {
   "kind": "mesh",
   "hardware": "nvlink",
   "channels": 12,
   "rate": 20000000000.0,
   "generation": "volta",
   "hostRate": 80000000000.0,
   "pcieRate": 12603200000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    20000000000.0,
    40000000000.0,
    80000000000.0,
    0.0,
    40000000000.0,
    80000000000.0,
    120000000000.0
   ]
  },
  "nvlink3": {
   "kind": "switch",
   "hardware": "nvlink",
   "channels": 24,
   "rate": 240000000000.0,
   "generation": "ampere",
   "hostRate": 80000000000.0,
   "pcieRate": 25206400000.0,
   "cpu": "amd",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    240000000000.0,
    240000000000.0,
    240000000000.0,
    240000000000.0,
    240000000000.0,
    240000000000.0,
    240000000000.0
   ]
  },
  "nvlink4": {
   "kind": "switch",
   "hardware": "nvlink",
   "channels": 16,
   "rate": 370800000000.0,
   "generation": "hopper",
   "hostRate": 80000000000.0,
   "pcieRate": 50412000000.0,
   "cpu": "intel",
   "inSwitch": 0.85,
   "inSwitchRates": [
    0.0,
    51000000000.0,
    102000000000.0,
    153000000000.0,
    204000000000.0,
    255000000000.0,
    255000000000.0,
    238000000000.0,
    272000000000.0
   ],
   "ringRates": [
    0,
    0,
    370800000000.0,
    370800000000.0,
    370800000000.0,
    370800000000.0,
    370800000000.0,
    370800000000.0,
    370800000000.0
   ]
  },
  "nvlink5": {
   "kind": "switch",
   "hardware": "nvlink",
   "channels": 32,
   "rate": 721800000000.0,
   "generation": "blackwell",
   "hostRate": 80000000000.0,
   "pcieRate": 50412000000.0,
   "cpu": "intel",
   "inSwitch": 0.74,
   "inSwitchRates": [
    0.0,
    66600000000.0,
    133200000000.0,
    199800000000.0,
    266400000000.0,
    333000000000.0,
    399600000000.0,
    466200000000.0,
    473600000000.0
   ],
   "ringRates": [
    0,
    0,
    721800000000.0,
    721800000000.0,
    721800000000.0,
    721800000000.0,
    721800000000.0,
    721800000000.0,
    721800000000.0
   ]
  },
  "nvlink4_400": {
   "kind": "switch",
   "hardware": "nvlink",
   "channels": 16,
   "rate": 164800000000.0,
   "generation": "hopper",
   "hostRate": 80000000000.0,
   "pcieRate": 50412000000.0,
   "cpu": "intel",
   "inSwitch": 0.85,
   "inSwitchRates": [
    0.0,
    51000000000.0,
    85000000000.0,
    102000000000.0,
    102000000000.0,
    102000000000.0,
    102000000000.0,
    119000000000.0,
    102000000000.0
   ],
   "ringRates": [
    0,
    0,
    164800000000.0,
    164800000000.0,
    164800000000.0,
    164800000000.0,
    164800000000.0,
    164800000000.0,
    164800000000.0
   ]
  },
  "nvlink4_c2c": {
   "kind": "switch",
   "hardware": "nvlink",
   "channels": 16,
   "rate": 370800000000.0,
   "generation": "hopper",
   "hostRate": 80000000000.0,
   "pcieRate": 360000000000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    370800000000.0,
    370800000000.0,
    370800000000.0,
    370800000000.0,
    370800000000.0,
    370800000000.0,
    370800000000.0
   ]
  },
  "pcie5:2xsapphire-rapids": {
   "kind": "host",
   "hardware": "pci",
   "channels": 2,
   "rate": 50412000000.0,
   "generation": "ampere",
   "hostRate": 245760000000.0,
   "pcieRate": 50412000000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0
   ]
  },
  "pcie5_bridge600:2xsapphire-rapids": {
   "kind": "mesh",
   "hardware": "nvlink",
   "channels": 12,
   "rate": 20600000000.0,
   "generation": "hopper",
   "hostRate": 245760000000.0,
   "pcieRate": 50412000000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    247200000000.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0
   ]
  },
  "pcie5:staged:2xsapphire-rapids": {
   "kind": "host",
   "hardware": "pci",
   "channels": 2,
   "rate": 50412000000.0,
   "generation": "ampere",
   "hostRate": 245760000000.0,
   "pcieRate": 50412000000.0,
   "cpu": "intel",
   "inSwitch": 0.0,
   "inSwitchRates": [],
   "ringRates": [
    0,
    0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0,
    50412000000.0
   ]
  }
 },
 "networks": {
  "edr": {
   "nics": 4,
   "rate": 12000000000.0,
   "latency": 1e-06,
   "cpu": null,
   "ordered": true
  },
  "hdr": {
   "nics": 8,
   "rate": 24000000000.0,
   "latency": 1e-06,
   "cpu": null,
   "ordered": true
  },
  "ndr": {
   "nics": 8,
   "rate": 48000000000.0,
   "latency": 1e-06,
   "cpu": null,
   "ordered": true
  },
  "efa": {
   "nics": 8,
   "rate": 48000000000.0,
   "latency": 2e-05,
   "cpu": "amd",
   "ordered": false
  },
  "hdr4": {
   "nics": 4,
   "rate": 24000000000.0,
   "latency": 1e-06,
   "cpu": null,
   "ordered": true
  },
  "ethernet100": {
   "nics": 1,
   "rate": 12000000000.0,
   "latency": 1.5e-05,
   "cpu": null,
   "ordered": true
  },
  "ethernet200": {
   "nics": 1,
   "rate": 24000000000.0,
   "latency": 1.5e-05,
   "cpu": null,
   "ordered": true
  },
  "ethernet400": {
   "nics": 1,
   "rate": 48000000000.0,
   "latency": 1.5e-05,
   "cpu": null,
   "ordered": true
  }
 },
 "models": {
  "gpt2-124m": {
   "name": "GPT-2 124M",
   "width": 768,
   "layers": 211
  },
  "gpt2-1.5b": {
   "name": "GPT-2 1.5B",
   "width": 1600,
   "layers": 608
  },
  "llama2-7b": {
   "name": "Llama 2 7B",
   "width": 4096,
   "layers": 402
  },
  "llama3-8b": {
   "name": "Llama 3 8B",
   "width": 4096,
   "layers": 479
  },
  "llama2-13b": {
   "name": "Llama 2 13B",
   "width": 5120,
   "layers": 496
  },
  "llama3-70b": {
   "name": "Llama 3 70B",
   "width": 8192,
   "layers": 1051
  },
  "llama3-405b": {
   "name": "Llama 3 405B",
   "width": 16384,
   "layers": 1512
  },
  "gpt3-175b": {
   "name": "GPT-3 175B",
   "width": 12288,
   "layers": 1156
  }
 },
 "itemBytes": {
  "float64": 8,
  "float32": 4,
  "tf32": 4,
  "bfloat16": 2,
  "float16": 2,
  "float8": 1,
  "int8": 1
 },
 "matmul": {
  "tiles": [
   [
    256,
    128
   ],
   [
    128,
    256
   ],
   [
    128,
    128
   ],
   [
    256,
    64
   ],
   [
    64,
    256
   ],
   [
    128,
    64
   ],
   [
    64,
    128
   ],
   [
    64,
    64
   ]
  ],
  "tileLoss": 16,
  "depthLoss": 128,
  "splits": [
   1,
   2,
   4,
   8
  ],
  "thin": 32
 },
 "contention": {
  "most": 0.9,
  "networkChannels": 2
 },
 "nccl": {
  "base": {
   "tree": {
    "LL": 6.8e-06,
    "LL128": 1.4e-05,
    "Simple": 8.4e-06
   },
   "ring": {
    "LL": 6.6e-06,
    "LL128": 1.4e-05,
    "Simple": 8.4e-06
   }
  },
  "step": {
   "nvlink": {
    "tree": {
     "LL": 6e-07,
     "LL128": 1.25e-06,
     "Simple": 4e-06
    },
    "ring": {
     "LL": 6e-07,
     "LL128": 1.9e-06,
     "Simple": 3.4e-06
    }
   },
   "pci": {
    "tree": {
     "LL": 1e-06,
     "LL128": 1.9e-06,
     "Simple": 4e-06
    },
    "ring": {
     "LL": 1e-06,
     "LL128": 2.5e-06,
     "Simple": 5.7e-06
    }
   },
   "net": {
    "tree": {
     "LL": 5e-06,
     "LL128": 8.5e-06,
     "Simple": 1.4e-05
    },
    "ring": {
     "LL": 2.7e-06,
     "LL128": 4e-06,
     "Simple": 1.4e-05
    }
   }
  },
  "inSwitch": 2.5e-05,
  "inSwitchNet": 2.09e-05,
  "inSwitchTreeRate": {
   "hopper": [
    57700000000.0,
    45500000000.0
   ],
   "blackwell": [
    96000000000.0,
    80000000000.0
   ]
  },
  "posts": {
   "intel": {
    "LL": 1e-06,
    "LL128": 1e-06,
    "Simple": 3e-06
   },
   "amd": {
    "LL": 2e-06,
    "LL128": 2e-06,
    "Simple": 6e-06
   }
  },
  "plateau": {
   "volta": 1.9,
   "ampere": 1.4,
   "hopper": 1.4,
   "blackwell": 1.4
  },
  "plateauFrom": 64,
  "efficiency": {
   "ring": {
    "LL": [
     0.5,
     0.5
    ],
    "LL128": [
     0.92,
     0.92
    ],
    "Simple": [
     1.0,
     1.0
    ]
   },
   "tree": {
    "LL": [
     0.24210526315789477,
     0.24210526315789477
    ],
    "LL128": [
     0.7155555555555556,
     0.8625
    ],
    "Simple": [
     0.92,
     0.92
    ]
   }
  },
  "llRate": {
   "volta": 39000000000.0,
   "ampere": 87700000000.0,
   "hopper": 141000000000.0,
   "blackwell": 282000000000.0
  },
  "llRateOverNodes": {
   "intel": [
    39000000000.0,
    20400000000.0
   ],
   "amd": [
    22500000000.0,
    19000000000.0
   ]
  },
  "threads": {
   "LL": 512,
   "LL128": 640,
   "Simple": 512
  },
  "threadBytes": {
   "LL": 8,
   "LL128": 8,
   "Simple": 64
  },
  "treeCorrection": {
   "LL": [
    1.0,
    1.0,
    1.0,
    1.0,
    0.9,
    0.8,
    0.7,
    0.7,
    0.7,
    0.7,
    0.6,
    0.5,
    0.4,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    1.0,
    1.0,
    1.0,
    1.0,
    1.0
   ],
   "LL128": [
    1.0,
    1.0,
    1.0,
    1.0,
    1.0,
    0.9,
    0.8,
    0.8,
    0.8,
    0.7,
    0.6,
    0.6,
    0.6,
    0.6,
    0.6,
    0.6,
    0.8,
    0.9,
    0.9,
    0.9,
    0.9,
    1.0,
    1.0,
    1.0
   ],
   "Simple": [
    0.9,
    0.9,
    0.9,
    0.9,
    0.9,
    0.9,
    0.9,
    0.8,
    0.7,
    0.6,
    0.6,
    0.5,
    0.5,
    0.5,
    0.5,
    0.6,
    0.7,
    0.8,
    0.7,
    0.7,
    0.8,
    0.9,
    0.9,
    0.9
   ]
  }
 },
 "measured": {
  "wire": 0.96,
  "fill": 1048576
 }
};
