"""Record what MXNet 1.9.1 computes for small inputs, in values.json beside this file.

MXNet needs an environment of its own, with an old NumPy::

    python3.11 -m venv mx
    mx/bin/pip install mxnet==1.9.1 numpy==1.23.5 "matplotlib<3.8" "pandas<2.1" ipython requests
    mx/bin/pip install --no-deps d2l==0.17.0
    OMP_NUM_THREADS=1 mx/bin/python tests/support/mxnet_values/record.py

Contexts are ``cpu(0)`` and ``cpu(1)``: MXNet treats them as two devices with memory of their own.
"""

import json
import platform
from pathlib import Path

import d2l as d2l_package
import mxnet as mx
import numpy
from mxnet import autograd, gluon, init, nd
from mxnet.gluon import nn

CONTEXTS = [mx.cpu(0), mx.cpu(1)]


def pattern(*shape):
    """Return numbers from -0.5 to 0.5 that need no random generator."""
    count = int(numpy.prod(shape))
    return ((7 * numpy.arange(count) % 11 - 5) / 10).reshape(shape).astype("float32")


def labels(count, classes):
    return (numpy.arange(count) * 2 % classes).astype("float32")


def listed(array):
    return array.asnumpy().tolist()


def refusal(call):
    """Return the name and the first sentence of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).split('. ')[0].strip()}"
    raise AssertionError("MXNet raises no error")


def operations():
    X, filters, bias = pattern(1, 1, 4, 4), pattern(2, 1, 3, 3), pattern(2)
    image = nd.array(X)
    conv = {"kernel": (3, 3), "num_filter": 2}
    pool = {"kernel": (2, 2), "stride": (2, 2)}
    return {
        "nd.Convolution": listed(nd.Convolution(image, nd.array(filters), nd.array(bias), **conv)),
        "nd.Pooling avg": listed(nd.Pooling(image, pool_type="avg", **pool)),
        "nd.Pooling max": listed(nd.Pooling(image, pool_type="max", **pool)),
        "nd.Pooling without type": listed(nd.Pooling(image, **pool)),
        "nd.Pooling without stride": listed(nd.Pooling(image, pool_type="avg", kernel=(2, 2))),
        "nd.relu": listed(nd.relu(image)),
        "nd.dot": listed(nd.dot(nd.array(pattern(2, 3)), nd.array(pattern(3, 2)))),
        "nd.dot of three axes": list(nd.dot(nd.ones((2, 3, 4)), nd.ones((4, 5, 6))).shape),
        "nd.norm": nd.norm(image).asscalar().item(),
    }


def operations_of_numpy():
    """Return the same with ``mx.np`` and ``mx.npx``; call it after ``npx.set_np()``."""
    from mxnet import np, npx

    image, filters, bias = (np.array(pattern(*s)) for s in ((1, 1, 4, 4), (2, 1, 3, 3), (2,)))
    conv = npx.convolution(image, filters, bias, kernel=(3, 3), num_filter=2)
    pool = npx.pooling(image, kernel=(2, 2), stride=(2, 2), pool_type="avg")
    return {
        "npx.convolution": listed(conv),
        "npx.pooling avg": listed(pool),
        "npx.pooling without stride": listed(npx.pooling(image, kernel=(2, 2), pool_type="avg")),
        "npx.relu": listed(npx.relu(image)),
        "npx.activation relu": listed(npx.activation(image, act_type="relu")),
        "np.dot": listed(np.dot(np.array(pattern(2, 3)), np.array(pattern(3, 2)))),
        "dtype of np.array([1, 2])": str(np.array([1, 2]).dtype),
        "shape of a sum": list(np.array(pattern(3)).sum().shape),
    }


def losses():
    logits, y = nd.array(pattern(4, 3)), nd.array(labels(4, 3))
    logits.attach_grad()
    with autograd.record():
        loss = gluon.loss.SoftmaxCrossEntropyLoss()(logits, y)
    loss.backward()
    squares = gluon.loss.L2Loss()(nd.array(pattern(4, 3)), nd.array(pattern(3, 4).T))
    return {
        "SoftmaxCrossEntropyLoss": listed(loss),
        "its gradient": listed(logits.grad),
        "L2Loss": listed(squares),
    }


def gradients():
    found = {}
    for request in ("write", "add"):
        w = nd.array(pattern(3))
        w.attach_grad(grad_req=request)
        found[f"gradient before backward, {request}"] = listed(w.grad)
        for _ in range(2):
            with autograd.record():
                loss = w * w / 2
            loss.backward()
        found[f"gradient, {request}"] = listed(w.grad)
    with autograd.record():
        recording = autograd.is_training()
    return found | {"training while recording, and otherwise": [recording, autograd.is_training()]}


def dense(contexts):
    net = nn.Dense(3, in_units=4)
    net.initialize(ctx=contexts)
    net.weight.set_data(nd.array(pattern(3, 4)))
    net.bias.set_data(nd.array(pattern(3)))
    return net


def of_all(copies):
    """Return what all devices have; fail if they differ."""
    first, *others = map(listed, copies)
    assert all(other == first for other in others)
    return first


def trained(name, rates, count=8, devices=2, **options):
    """Return weights and biases after a step of a trainer for each rate."""
    contexts = CONTEXTS[:devices]
    net = dense(contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", options, kvstore="device")
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    X, y = nd.array(pattern(count, 4)), nd.array(labels(count, 3))
    shards = [gluon.utils.split_and_load(a, contexts, even_split=False) for a in (X, y)]
    for rate in rates:
        trainer.set_learning_rate(rate)
        with autograd.record():
            found = [loss(net(Xs), ys) for Xs, ys in zip(*shards, strict=True)]
        for one in found:
            one.backward()
        trainer.step(count)
    return {
        f"weights, {name}": of_all(net.weight.list_data()),
        f"biases, {name}": of_all(net.bias.list_data()),
    }


def trainers():
    return {
        **trained("trainer.step(8)", [0.1]),
        **trained("trainer.step(8) on one device", [0.1], devices=1),
        **trained("trainer.step(7)", [0.1], count=7),
        **trained("momentum", [0.1, 0.1, 0.1], momentum=0.9),
        **trained("momentum, rate changed", [0.1, 0.01, 0.01], momentum=0.9),
        **trained("wd", [0.1, 0.1], wd=0.5),
    }


def sums():
    each = [nd.array(pattern(3) + i, ctx=c) for i, c in enumerate(CONTEXTS)]
    store = mx.kv.create("local")
    store.init(0, nd.zeros(3))
    store.push(0, each)
    out = [nd.zeros(3, ctx=c) for c in CONTEXTS]
    store.pull(0, out=out)
    net = dense(CONTEXTS)
    trainer = gluon.Trainer(net.collect_params(), "sgd", update_on_kvstore=False)
    with autograd.record():
        outputs = [net(nd.array(pattern(2, 4) + i, ctx=c)) for i, c in enumerate(CONTEXTS)]
    autograd.backward(outputs)
    trainer.allreduce_grads()
    return {
        "kv.push and kv.pull": of_all(out),
        "trainer.allreduce_grads": of_all(net.weight.list_grad()),
    }


def splits():
    def shards(count, **options):
        pieces = gluon.utils.split_and_load(nd.arange(count), CONTEXTS, **options)
        return [listed(piece) for piece in pieces]

    return {
        "split_and_load of 8": shards(8),
        "split_and_load of 7": refusal(lambda: shards(7)),
        "split_and_load of 7, even_split=False": shards(7, even_split=False),
    }


def statistics(array):
    values = array.asnumpy()
    return {"mean": float(values.mean()), "std": float(values.std()), "max": float(values.max())}


def initialised(initializer):
    net = nn.Dense(300, in_units=600)
    net.initialize(initializer) if initializer else net.initialize()
    return {"weight": statistics(net.weight.data()), "bias": statistics(net.bias.data())}


def layers():
    norm = nn.BatchNorm(in_channels=2)
    norm.initialize()
    X = nd.array(pattern(4, 2))
    with autograd.record():
        outputs = norm(X)
    outputs.wait_to_read()
    early = listed(norm.running_mean.data())
    outputs.backward()
    flat = nn.Dense(5)
    flat.initialize(ctx=CONTEXTS)
    deferred = refusal(lambda: flat.weight.data(CONTEXTS[0]))
    shape = list(flat(nd.ones((2, 3, 4), ctx=CONTEXTS[0])).shape)
    return {
        "BatchNorm": listed(outputs),
        "BatchNorm's means before backward": early,
        "BatchNorm's means": listed(norm.running_mean.data()),
        "BatchNorm's variances": listed(norm.running_var.data()),
        "Dense on three axes": shape,
        "Dense's weight before the first batch": deferred,
        "Dense's weight on another device": refusal(lambda: flat.weight.data(mx.cpu(2))),
        "init.Normal()": initialised(init.Normal()),
        "init.Normal(sigma=0.1)": initialised(init.Normal(sigma=0.1)),
        "init.Xavier()": initialised(init.Xavier()),
        "no init": initialised(None),
        "nd.random_normal": statistics(nd.random_normal(0.5, 0.01, shape=(300, 600))),
        "nd.random.uniform": statistics(nd.random.uniform(shape=(300, 600))),
    }


def copies():
    x = nd.ones(3)
    return {
        "as_in_context returns x itself": x.as_in_context(mx.cpu(0)) is x,
        "copyto returns x itself": x.copyto(mx.cpu(0)) is x,
    }


def lenet(X, params):
    conv1, b1, conv2, b2, dense1, b3, dense2, b4 = params
    pool = {"kernel": (2, 2), "stride": (2, 2), "pool_type": "avg"}
    h = nd.relu(nd.Convolution(X, conv1, b1, kernel=(5, 5), num_filter=20))
    h = nd.Pooling(h, **pool)
    h = nd.relu(nd.Convolution(h, conv2, b2, kernel=(5, 5), num_filter=50))
    h = nd.Pooling(h, **pool).flatten()
    return nd.dot(nd.relu(nd.dot(h, dense1) + b3), dense2) + b4


SHAPES = [(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]


def from_scratch():
    """Train LeNet for two steps on two devices as the chapter from scratch does, 3 + 3 images."""
    replicas = [[nd.array(pattern(*s) / 4, ctx=c) for s in SHAPES] for c in CONTEXTS]
    for params in replicas:
        for p in params:
            p.attach_grad()
    X, y = nd.array(pattern(6, 1, 28, 28)), nd.array(labels(6, 10))
    shards = [gluon.utils.split_and_load(a, CONTEXTS) for a in (X, y)]
    loss, found = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(2):
        with autograd.record():
            both = zip(*shards, replicas, strict=True)
            ls = [loss(lenet(Xs, params), ys) for Xs, ys, params in both]
        for one in ls:
            one.backward()
        found += [[listed(one) for one in ls]]
        for pair in zip(*replicas, strict=True):
            pair[0].grad[:] += pair[1].grad.as_in_context(CONTEXTS[0])
            pair[0].grad.copyto(pair[1].grad)
            for p in pair:
                p[:] = p - 0.1 * p.grad / 6
    both = [numpy.array(of_all(copies)) for copies in zip(*replicas, strict=True)]
    norms = [numpy.linalg.norm(values) for values in both]  # 64 bits; MXNet adds up in 32
    return {"losses from scratch": found, "norms from scratch": norms}


def helpers_of_d2l():
    """Return what the package d2l computes with MXNet; call it after ``npx.set_np()``."""
    from d2l import mxnet as d2l
    from mxnet import np

    scores, y = np.array(pattern(6, 3)), np.array(labels(6, 3))
    counts = d2l.Accumulator(2)
    for batch in range(2):
        counts.add(d2l.accuracy(scores[3 * batch :], y[3 * batch :]), len(y[3 * batch :]))
    shards = d2l.split_batch(np.array(pattern(4, 2)), np.arange(4), CONTEXTS)
    net = d2l.resnet18(10)
    net.initialize(init=init.Normal(sigma=0.01), ctx=CONTEXTS[:1])
    net(np.ones((1, 1, 28, 28)))
    learned = [p for p in net.collect_params().values() if p.grad_req != "null"]
    block = d2l.Residual(8, use_1x1conv=True, strides=2)
    block.initialize()
    batches = [(np.array(pattern(4, 4)), np.array(labels(4, 3)))] * 2
    small = nn.Dense(3, in_units=4)
    small.initialize(ctx=CONTEXTS)
    small.weight.set_data(np.array(pattern(3, 4)))
    small.bias.set_data(np.array(pattern(3)))
    return {
        "d2l.accuracy": d2l.accuracy(scores, y),
        "d2l.Accumulator": [counts[0], counts[1]],
        "d2l.split_batch": [[listed(shard) for shard in part] for part in shards],
        "d2l.evaluate_accuracy_gpus": d2l.evaluate_accuracy_gpus(small, batches),
        "d2l.resnet18": sum(p.data().size for p in learned),
        "d2l.Residual": list(block(np.ones((1, 4, 6, 6))).shape),
        "d2l.try_gpu(1000)": str(d2l.try_gpu(1000)),
        "d2l.try_all_gpus()": [str(c) for c in d2l.try_all_gpus()],
    }


def main():
    mx.random.seed(0)
    values = {}
    for part in (operations, losses, gradients, trainers, sums, splits, layers, copies):
        values |= part()
    values |= from_scratch()
    mx.npx.set_np()
    values |= operations_of_numpy() | helpers_of_d2l()
    versions = {
        "mxnet": mx.__version__,
        "d2l": d2l_package.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }
    file = Path(__file__).with_name("values.json")
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items()]
    body = ",\n".join(lines)
    file.write_text(f'{{"versions": {json.dumps(versions)},\n"values": {{\n{body}\n}}}}\n')


if __name__ == "__main__":
    main()
