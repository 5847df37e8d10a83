"""The parts of the data-parallel script, each in this process."""

from itertools import pairwise
from unittest import mock

import pytest
import torch
import train_ddp
from torch import nn

from d2lmini import ddp, init_params


@pytest.fixture
def worker():
    with ddp.process_group("cpu") as worker:
        yield worker


class TestSharding:
    @pytest.mark.parametrize("world_size", [1, 2, 3, 5])
    @pytest.mark.parametrize("num_images", [1, 7, 24, 25])
    def test_every_image_is_seen_once_by_one_rank(self, num_images, world_size):
        ranks = [ddp.ShardedBatchSampler(num_images, 6, r, world_size) for r in range(world_size)]
        steps = list(zip(*ranks, strict=True))
        seen = torch.cat([share for step in steps for share in step])
        assert sorted(seen.tolist()) == list(range(num_images))
        for i, step in enumerate(steps):
            sizes = [len(share) for share in step]
            assert max(sizes) - min(sizes) <= 1
            assert sum(sizes) == ranks[0].size(i)

    def test_batches_do_not_depend_on_the_number_of_ranks(self):
        def batches(world_size):
            ranks = [ddp.ShardedBatchSampler(20, 6, r, world_size) for r in range(world_size)]
            return [set(torch.cat(step).tolist()) for step in zip(*ranks, strict=True)]

        assert batches(1) == batches(2) == batches(4)

    def test_epochs_differ_and_repeat(self):
        sampler = ddp.ShardedBatchSampler(20, 6)

        def epoch(number, start_step=0):
            sampler.set_epoch(number, start_step)
            return [share.tolist() for share in sampler]

        assert epoch(0) != epoch(1)
        assert epoch(0) == epoch(0)
        assert epoch(1, start_step=2) == epoch(1)[2:]

    def test_works_as_batch_sampler_of_a_data_loader(self):
        data = torch.utils.data.TensorDataset(torch.arange(20))
        sampler = ddp.ShardedBatchSampler(20, 6, rank=1, world_size=2)
        loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
        assert [X.tolist() for (X,) in loader] == [share.tolist() for share in sampler]

    def test_a_batch_smaller_than_the_job_is_an_error(self):
        with pytest.raises(ValueError, match="raise the batch size or start fewer"):
            ddp.ShardedBatchSampler(20, 3, rank=0, world_size=4)

    def test_no_image_is_an_error(self):
        with pytest.raises(ValueError, match="has 0 images; training needs at least 1"):
            ddp.ShardedBatchSampler(0, 3)


class TestDevices:
    """Known bug: a model that was wrapped before it was moved; labels left behind."""

    # Where there is no GPU, the device "meta" stands for one: tensors there do not mix with others.
    other = torch.device("meta")

    def test_wrapping_before_moving_is_an_error(self, worker):
        with pytest.raises(ValueError, match=r"0\.weight is on cpu, .* call \.to\('meta'\) before"):
            ddp.wrap_model(nn.Sequential(nn.Linear(2, 2)), self.other)

    def test_a_buffer_left_behind_is_an_error(self, worker):
        net = nn.BatchNorm2d(2)
        net.running_mean = net.running_mean.to(self.other)
        with pytest.raises(ValueError, match="running_mean is on meta"):
            ddp.wrap_model(net, worker.device)

    def test_images_and_labels_come_from_one_device(self):
        data = tuple(tensor.to(self.other) for tensor in ddp.synthetic_images(4))
        X, y = ddp.pick(data, torch.tensor([1, 2]))
        assert X.device == y.device == self.other

    def test_labels_left_behind_are_an_error(self, worker):
        net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(self.other)
        net.no_sync = mock.Mock()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        X, y = ddp.pick(ddp.synthetic_images(4), torch.arange(4))
        with pytest.raises(RuntimeError, match=r"on the same device|expected device"):
            train_ddp.train_step(net, optimizer, X.to(self.other), y, 4)

    def test_synchronised_batch_norm_needs_cuda(self, worker):
        args = train_ddp.parse_args(["--norm", "sync", "--width", "8", "--synthetic", "9"])
        with pytest.raises(ValueError, match="CUDA devices only, not on cpu: take BatchNorm2d"):
            train_ddp.Job(args, worker)


class TestPrecision:
    cpu = torch.device("cpu")

    @pytest.mark.parametrize("name", ["amx_bf16", "avx512_bf16"])
    def test_bfloat16_where_the_cpu_has_it(self, name):
        with mock.patch.object(torch.cpu, "get_capabilities", return_value={name: True}):
            assert ddp.choose_precision(self.cpu) == (torch.bfloat16, f"this CPU has {name}")

    def test_float32_where_it_has_not(self):
        with mock.patch.object(torch.cpu, "get_capabilities", return_value={"avx2": True}):
            dtype, reason = ddp.choose_precision(self.cpu)
        assert (dtype, reason) == (torch.float32, "this CPU has no bfloat16 units")

    @pytest.mark.parametrize(("version", "dtype"), [((7, 0), "float32"), ((8, 0), "bfloat16")])
    def test_gpus_from_ampere_on(self, version, dtype):
        with mock.patch.object(torch.cuda, "get_device_capability", return_value=version):
            assert ddp.choose_precision(torch.device("cuda:0"))[0] == getattr(torch, dtype)

    @pytest.mark.slow
    def test_bfloat16_changes_the_result_and_not_the_weights_dtype(self, worker):
        ends = {}
        for name in ("float32", "bfloat16"):
            common = ["--model", "lenet", "--synthetic", "64", "--epochs", "1"]
            job = train_ddp.Job(train_ddp.parse_args([*common, "--precision", name]), worker)
            job.run()
            assert all(p.dtype == torch.float32 for p in job.net.parameters())
            ends[name] = ddp.fingerprint(job.net.state_dict())
        assert ends["float32"] != ends["bfloat16"]


class TestRecords:
    def test_rank_0_alone_reports(self, capsys):
        for rank in (0, 1):
            ddp.Worker(rank, 2, torch.device("cpu"), "gloo", "").report("here", rank=rank)
        assert capsys.readouterr().out == '{"event": "here", "rank": 0}\n'

    def test_the_rate_rises_to_its_value(self, worker):
        args = ["--model", "lenet", "--synthetic", "64", "--batch-size", "16", "--lr", "0.4"]
        job = train_ddp.Job(train_ddp.parse_args([*args, "--warmup", "5"]), worker)
        rates = []
        with mock.patch.object(train_ddp, "train_step", return_value=0.0):
            for at in [train_ddp.Progress(0), train_ddp.Progress(1)]:
                for indices in job.sampler:
                    job.step(indices, 16, at)
                    rates.append(job.optimizer.param_groups[0]["lr"])
                    at.step += 1
        steps = [b - a for a, b in pairwise(rates)]
        assert rates[0] == pytest.approx(0.08)
        assert steps[:4] == pytest.approx([0.08] * 4)
        assert rates[4:] == pytest.approx([0.4] * 4)


def test_the_scripts_lenet_is_the_chapters():
    net = train_ddp.build_model(train_ddp.parse_args(["--model", "lenet"]))
    shapes = [tuple(p.shape) for p in net.parameters() if p.dim() == 4]
    assert shapes == [tuple(p.shape) for p in init_params() if p.dim() == 4]
    assert sum(p.numel() for p in net.parameters()) == sum(p.numel() for p in init_params())
