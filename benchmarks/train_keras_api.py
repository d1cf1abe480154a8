"""Train one workload through ``model.fit``; print the steps per second as JSON.

Usage: ``python train_keras_api.py NAME --framework uniflexflow|keras --threads 2``; for
Keras, the environment variable KERAS_BACKEND chooses JAX or TensorFlow.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time

from models import WORKLOADS, build, data, loss, optimizer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("--framework", default="uniflexflow", choices=["uniflexflow", "keras"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    if args.framework == "keras" and os.environ.get("KERAS_BACKEND") == "tensorflow":
        import tensorflow

        tensorflow.config.threading.set_intra_op_parallelism_threads(args.threads)
    k = importlib.import_module(args.framework)
    w = WORKLOADS[args.name]
    model = build(k, args.name)
    model.compile(optimizer=optimizer(k, args.name), loss=loss(k, args.name))
    x, y = data(args.name, w.batch * args.steps)
    model.fit(x[: 2 * w.batch], y[: 2 * w.batch], batch_size=w.batch, verbose=0)
    model.fit(x, y, batch_size=w.batch, verbose=0)
    speeds = []
    for _ in range(args.repeats):
        start = time.perf_counter()
        model.fit(x, y, batch_size=w.batch, verbose=0)
        speeds.append(args.steps / (time.perf_counter() - start))
    print(json.dumps({"steps_per_second": sorted(speeds), "version": k.__version__}))


main()
