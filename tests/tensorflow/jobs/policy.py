"""Trains with a policy of tf.data: policy.py fit|loop OFF|DATA|FILE|forgotten."""

import os
import sys

import numpy as np
import tensorflow as tf

HOW, POLICY = sys.argv[1:]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
random = np.random.RandomState(5)
inputs = random.randn(256, 20).astype("float32")
labels = random.randint(0, 4, 256)


def parse(line):
    numbers = tf.strings.to_number(tf.strings.split(line, ","))
    return numbers[1:], tf.cast(numbers[0], tf.int64)


if POLICY == "FILE":
    name = f"samples-{os.getpid()}.csv"
    np.savetxt(name, np.column_stack([labels, inputs]), delimiter=",", fmt="%.5f")
    dataset = tf.data.TextLineDataset([name]).map(parse)
else:
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels))
dataset = dataset.batch(16)
if POLICY != "forgotten":
    options = tf.data.Options()
    shard_policy = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = getattr(shard_policy, POLICY)
    dataset = dataset.with_options(options)

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(20,))])
    optimizer = tf.keras.optimizers.SGD(0.05)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.SUM
    )
    model.compile(optimizer, loss_of)


@tf.function
def train_step(batch):
    def step_fn(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x)) / 32
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    strategy.run(step_fn, args=(batch,))


if HOW == "fit":
    model.fit(dataset, epochs=2, verbose=0)
elif POLICY == "forgotten":
    for batch in strategy.distribute_datasets_from_function(lambda context: dataset):
        train_step(batch)
else:
    for batch in strategy.experimental_distribute_dataset(dataset):
        train_step(batch)
print("trained", flush=True)
