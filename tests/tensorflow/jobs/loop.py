"""A loop of its own under MultiWorkerMirroredStrategy: loop.py WHAT, with a fault or none."""

import json
import os
import signal
import sys
import time
import zlib

import numpy as np
import tensorflow as tf

WHAT = sys.argv[1]
RANK = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
GUILTY = 1
STEPS = {"slow": 60, "hang": 400}.get(WHAT, 40)

strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf.random.set_seed(7)
random = np.random.RandomState(3)
inputs = random.randn(512, 16).astype("float32")
labels = random.randint(0, 4, 512)
if WHAT == "nan" and RANK == GUILTY:
    # It comes in the fifth batch of this worker.
    inputs[2 * 70 + RANK] = float("nan")
with strategy.scope():
    weights = tf.Variable(tf.random.normal([16, 4]))
    optimizer = tf.keras.optimizers.SGD(0.05)


def make_dataset(context):
    whole = tf.data.Dataset.from_tensor_slices((inputs, labels))
    part = whole.shard(context.num_input_pipelines, context.input_pipeline_id)
    return part.repeat().batch(16)


dataset = strategy.distribute_datasets_from_function(make_dataset)


@tf.function
def train_step(batch):
    def step_fn(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            logits = tf.matmul(x, weights)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
            loss = tf.reduce_mean(loss)
        gradients = tape.gradient(loss, [weights])
        optimizer.apply_gradients(zip(gradients, [weights]))
        return loss

    losses = strategy.run(step_fn, args=(batch,))
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)


@tf.function
def accuracy(x, y):
    return tf.reduce_mean(tf.cast(tf.argmax(tf.matmul(x, weights), 1) == y, tf.float32))


def prepare(step):
    """What the guilty worker does before its step."""
    if WHAT == "slow":
        time.sleep(0.2)
    elif step == 20 and WHAT == "hang":
        time.sleep(600)
    elif step == 20 and WHAT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif step == 20 and WHAT == "raise":
        raise ValueError("a sample that cannot be read")


batches = iter(dataset)
for step in range(STEPS):
    batch = next(batches)
    if RANK == GUILTY:
        prepare(step)
    loss = train_step(batch)
    if WHAT == "healthy" and step % 10 == 9:
        print(f"worker {RANK} step {step} loss {float(loss):.9f}", flush=True)
    if WHAT == "healthy" and step % 20 == 19 and RANK == 0:
        # The chief alone looks how good it is, and saves it.
        for first in range(0, 512, 64):
            part = slice(first, first + 64)
            accuracy(inputs[part], labels[part])
        tf.train.Checkpoint(weights=weights).write(os.path.join("saved", str(step)))
digest = zlib.crc32(weights.numpy().tobytes())
print(f"worker {RANK} weights {digest:08x}", flush=True)
