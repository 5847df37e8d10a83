"""Training on several ranks computes what one process computes."""

import pytest
import torch
import train_ddp
from support.programs import ddp_scenarios
from support.programs.ddp_jobs import run_scenarios
from torch.utils.data import DistributedSampler

from d2lmini import ddp

# After ten steps in float64, whose rounding errors are 1e-16 each. Wrong versions are off by 1e-3.
TOLERANCE = 1e-10
TOLERANCE_FLOAT32 = 1e-5


def largest_difference(a, b):
    return max((a[name].double() - b[name].double()).abs().max().item() for name in a)


@pytest.fixture(scope="module")
def alone():
    """Weights of every scenario, from one process without a launcher."""
    with ddp.process_group("cpu") as worker:
        names = ddp_scenarios.SCENARIOS
        return {name: ddp_scenarios.train_scenario(name, worker) for name in names}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(2, id="2 ranks", marks=pytest.mark.process),
        pytest.param(3, id="3 ranks", marks=pytest.mark.exhaustive),
    ],
)
def together(request):
    return run_scenarios(request.param)[0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [n for n in ddp_scenarios.SCENARIOS if n != "batch norm"])
def test_weights_after_ten_steps_are_those_of_one_process(name, alone, together):
    tolerance = TOLERANCE_FLOAT32 if name == "float32" else TOLERANCE
    assert largest_difference(alone[name], together["weights"][name]) < tolerance


@pytest.mark.long
def test_all_ranks_end_with_the_same_bits(together):
    first, *others = together["fingerprints"]
    assert all(other == first for other in others)


def test_comparison_rejects_a_mean_of_means(alone, together):
    difference = largest_difference(alone["last batch of 7"], together["wrong"])
    assert difference > 100 * TOLERANCE_FLOAT32


def test_batch_norm_makes_the_split_matter(alone, together):
    """Each rank normalises by its own images: another function than that of the whole batch."""
    difference = largest_difference(alone["batch norm"], together["weights"]["batch norm"])
    assert difference > 100 * TOLERANCE_FLOAT32


def test_accumulation_sends_the_gradients_once(together):
    assert together["messages, no_sync"] == 1
    assert together["messages, sync"] == 3


def expected_count(size):
    return -(-size // 3)  # every third image is classified right


@pytest.mark.parametrize("size", ddp_scenarios.EVALUATED_SIZES)
def test_every_rank_gets_the_exact_count(size, together):
    counts = [counts[size] for counts in together["counts"]]
    assert counts == [expected_count(size)] * len(together["counts"])


@pytest.mark.slow
def test_one_process_gets_the_exact_count():
    with ddp.process_group("cpu") as worker:
        counts = ddp_scenarios.evaluate(worker, train_ddp.count_correct)
    assert counts == {size: expected_count(size) for size in ddp_scenarios.EVALUATED_SIZES}


def test_a_padding_sampler_counts_images_twice(together):
    """Known bug: `DistributedSampler` fills up the last round with images it has given out."""
    num_ranks = len(together["counts"])
    for size, (correct, total) in together["padded counts"].items():
        assert total == -(-size // num_ranks) * num_ranks
        if total > size:  # the first image, which is classified right, is among the repeated
            assert correct > expected_count(size)


def test_averaged_statistics_are_those_of_the_whole_batch(together):
    """Known bug: the running statistics of rank 0 alone, which `DistributedDataParallel` keeps."""
    net = ddp_scenarios.batch_norm_net()
    X, _ = ddp.pick(ddp.synthetic_images(36), torch.arange(36))
    first = slice(0, 8)  # of the first layer: the later ones see differently normalised inputs
    net(X)
    expected = ddp_scenarios.running_means(net)[first]
    rank_0 = together["statistics"][0]["own"][first]
    for rank in together["statistics"]:
        torch.testing.assert_close(rank["averaged"][first], expected, rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(rank["default"][first], rank_0, rtol=0, atol=0)
    assert not torch.allclose(rank_0, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_two_runs_in_a_row_begin_with_the_same_weights():
    """Known bug: the second run of a comparison went on with the weights of the first."""
    args = train_ddp.parse_args(["--model", "lenet", "--synthetic", "64", "--epochs", "1"])
    ends = []
    with ddp.process_group("cpu") as worker:
        for _ in range(2):
            job = train_ddp.Job(args, worker)
            begin = ddp.fingerprint(job.net.state_dict())
            job.run()
            ends.append((begin, ddp.fingerprint(job.net.state_dict())))
        job.run()  # wrong: the same network again
    assert ends[0] == ends[1]
    assert ddp.fingerprint(job.net.state_dict()) != ends[1][1]


@pytest.mark.parametrize(("num_images", "world_size"), [(96, 2), (96, 3), (64, 1)])
def test_where_all_divides_the_sampler_is_pytorchs(num_images, world_size):
    for rank in range(world_size):
        place = {"num_replicas": world_size, "rank": rank}
        theirs = DistributedSampler(range(num_images), seed=4, **place)
        theirs.set_epoch(2)
        ours = ddp.ShardedBatchSampler(num_images, 24, rank, world_size, seed=4)
        ours.set_epoch(2)
        assert torch.cat(list(ours)).tolist() == list(theirs)
