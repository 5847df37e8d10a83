"""ResNet-50 v1.5 on A100s (NVIDIA's DeepLearningExamples): images a second, TF32 and AMP."""

from benchmarks.published.shared.resnets import data_parallel
from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.shared.systems import find_system
from d2lmini import sim
from simgpu.bands.kinds import kind_of
from simgpu.plan.simulate import causes_between

TITLE = "ResNet-50 on one node {cite}`nvidia2021examples`"
COLUMNS = {"system", "gpus", "precision", "images_per_s"}
FITTED = "nothing. Assumed: 256 images a GPU, DDP, eager kernels, data that are always ready"
IMAGES, DEPTH = 256, 50
# The type of products: 32 bits are shortened to TF32 where the table says so.
PRECISIONS = {"FP32": "float32", "TF32": "tf32", "AMP": "float16", "FP16": "float16"}


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    gpus, precision = whole(row, "gpus"), row["precision"].strip()
    if precision not in PRECISIONS:
        raise UnpredictableError(f"precision {precision!r}; known are {', '.join(PRECISIONS)}")
    nodes = -(-gpus // 8)
    cluster, preset = find_system(row["system"], gpus, nodes)
    seconds = max(
        sim.spawn(
            data_parallel, (DEPTH, IMAGES, PRECISIONS[precision]), gpus, gpu=cluster.gpu,
            link=cluster.link, nodes=nodes, network=cluster.network, numerics=False, ranks=[0],
        )
    )  # fmt: skip
    measured = gpus * IMAGES / positive(row, "images_per_s")
    what = f"ResNet-50, {gpus} GPUs, {precision}, {IMAGES} images each"
    causes = causes_between(cluster.gpu, 0.0, max(span.end for span in sim.trace()))
    kind = kind_of(cluster, PRECISIONS[precision], causes, compiled=False)
    return Prediction(row["system"], preset, what, measured, seconds, kind=kind)
