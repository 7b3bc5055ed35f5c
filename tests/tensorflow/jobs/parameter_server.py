"""A coordinator, workers and a parameter server: parameter_server.py healthy|slow|kill|stop."""

import json
import os
import signal
import sys
import time

import tensorflow as tf

WHAT = sys.argv[1]
TASK = json.loads(os.environ["TF_CONFIG"])["task"]
GUILTY = {"type": "worker", "index": 1}
ROUNDS, SCHEDULED = {"slow": 12}.get(WHAT, 4), 20

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()


def misbehave():
    """What the guilty worker does some time after the coordinator has begun to train."""
    while not os.path.exists("trains"):
        time.sleep(0.1)
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}.get(WHAT)
    if number is not None:
        os.kill(os.getpid(), number)


if TASK["type"] in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=TASK["type"], task_index=TASK["index"], protocol="grpc"
    )
    if TASK == GUILTY:
        misbehave()
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    weights = tf.Variable(tf.ones([16, 4]))
    optimizer = tf.keras.optimizers.legacy.SGD(0.01)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step():
    def replica():
        x = tf.random.stateless_normal([8, 16], [1, 2])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        return loss

    return strategy.run(replica)


for number in range(ROUNDS):
    results = [coordinator.schedule(step) for _ in range(SCHEDULED)]
    coordinator.join()
    print(f"round {number} loss {float(results[-1].fetch()):.3f}", flush=True)
    with open("trains", "w"):
        pass
