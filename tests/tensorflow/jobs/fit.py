"""Keras under the strategy that TF_CONFIG asks for: fit.py [keras3], prints losses and weights."""

import json
import os
import sys
import zlib

if "keras3" in sys.argv:
    os.environ["TF_USE_LEGACY_KERAS"] = "0"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

CONFIG = json.loads(os.environ.get("TF_CONFIG") or "{}")
RANK = CONFIG.get("task", {}).get("index", 0)
strategy = tf.distribute.get_strategy()
if CONFIG:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf.keras.utils.set_random_seed(1)
random = np.random.RandomState(5)
inputs = random.randn(256, 20).astype("float32")
labels = random.randint(0, 4, 256)
dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(32)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
dataset = dataset.with_options(options)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(4)]
    )
    model.compile(
        tf.keras.optimizers.Adam(),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
history = model.fit(dataset, epochs=4, verbose=0, validation_data=dataset)
for epoch, loss in enumerate(history.history["loss"]):
    print(f"worker {RANK} epoch {epoch} loss {loss!r}", flush=True)
digest = zlib.crc32(b"".join(weight.tobytes() for weight in model.get_weights()))
print(f"worker {RANK} weights {digest:08x}", flush=True)
