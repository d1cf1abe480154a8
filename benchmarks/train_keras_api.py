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
from importlib import metadata

from models import WORKLOADS, build, data, loss, optimizer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("--framework", default="uniflexflow", choices=["uniflexflow", "keras"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--group", type=int, default=1, help="steps per execution")
    parser.add_argument("--convolution", default="direct", choices=["direct", "winograd"])
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    backend = os.environ.get("KERAS_BACKEND") if args.framework == "keras" else None
    if backend == "tensorflow":
        import tensorflow

        tensorflow.config.threading.set_intra_op_parallelism_threads(args.threads)
    k = importlib.import_module(args.framework)
    if args.framework == "uniflexflow":
        k.config.set_convolution_algorithm(args.convolution)
    w = WORKLOADS[args.name]
    model = build(k, args.name)
    model.compile(
        optimizer=optimizer(k, args.name),
        loss=loss(k, args.name),
        steps_per_execution=args.group,
    )
    x, y = data(args.name, w.batch * args.steps)
    model.fit(x[: 2 * w.batch], y[: 2 * w.batch], batch_size=w.batch, verbose=0)
    model.fit(x, y, batch_size=w.batch, verbose=0)
    speeds = []
    for _ in range(args.repeats):
        start = time.perf_counter()
        model.fit(x, y, batch_size=w.batch, verbose=0)
        speeds.append(args.steps / (time.perf_counter() - start))
    result = {
        "steps_per_second": sorted(speeds),
        "versions": {args.framework: k.__version__},
    }
    if backend is not None:
        package = {"tensorflow": "tensorflow-cpu"}.get(backend, backend)
        try:
            result["versions"][backend] = metadata.version(package)
        except metadata.PackageNotFoundError:
            result["versions"][backend] = importlib.import_module(backend).__version__
    else:
        step = model.make_train_function().for_specs((x[: w.batch], y[: w.batch]))
        result["flops"] = step.plan.flops
    print(json.dumps(result))


main()
