"""The main job in one file: train over MPI, stop half way, resume, evaluate, plot.

``make demo`` runs it twice under ``mpiexec -n 2``: the first time with ``--stop-at``, which
sends the process the signal that a batch system sends before its time is up; the second
time it finds the checkpoint and goes on where the first had stopped.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

import numpy as np

import uniflexflow as uff

DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")


def load(name: str) -> tuple:
    """Return images in [0, 1] of shape (n, height, width, 1), and labels."""
    if name == "auto":
        name = "fashion_mnist" if DEBIAN_FASHION.is_dir() else "digits"
    (x, y), (xt, yt) = getattr(uff.datasets, name).load_data()
    scale = 1.0 / x.max()
    x, xt = (a[..., None].astype("float32") * scale for a in (x, xt))
    return name, (x, y.astype("int32")), (xt, yt.astype("int32"))


def make_model(shape: tuple[int, ...]) -> uff.Model:
    """Build a small convolutional network for images of ``shape``."""
    layers = uff.layers
    model = uff.Sequential(
        [
            uff.Input(shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        optimizer=uff.optimizers.Adam(1e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


class Stopwatch(uff.callbacks.Callback):
    """Measures the training's throughput, and plays the batch system."""

    def __init__(self, stop_at: int | None):
        super().__init__()
        self.stop_at = stop_at
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.start)

    def on_train_batch_end(self, batch, logs=None):
        if self.stop_at is not None and (self.epoch, batch) == (self.stop_at, 4):
            os.kill(os.getpid(), signal.SIGTERM)


def plot(history: dict[str, list[float]], path: Path) -> None:
    """Draw the training curves."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for ax, key in zip(axes, ("loss", "accuracy")):
        epochs = np.arange(1, len(history[key]) + 1)
        ax.plot(epochs, history[key], marker=".", label="training")
        ax.plot(epochs, history[f"val_{key}"], marker=".", label="validation")
        ax.set(xlabel="epoch", ylabel=key)
        ax.grid(alpha=0.3)
        ax.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="auto", help="digits, mnist, fashion_mnist, or auto")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--stop-at", type=int, help="send SIGTERM in this epoch (from 0)")
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    args = parser.parse_args()

    rank, size = uff.distribution.rank(), uff.distribution.size()
    uff.utils.set_random_seed(7)
    name, (x, y), (xt, yt) = load(args.data)
    epochs = args.epochs or (40 if name == "digits" else 4)
    if rank == 0:
        args.output.mkdir(exist_ok=True, parents=True)
        print(f"{name}: {len(x)} images for training, {len(xt)} held out; {size} rank(s)")
    model = make_model(x.shape[1:])
    stopwatch = Stopwatch(args.stop_at)
    history = model.fit(
        x,
        y,
        batch_size=64,
        epochs=epochs,
        validation_split=0.1,
        callbacks=[
            stopwatch,
            uff.callbacks.BackupAndRestore(str(args.output / "checkpoint"), save_freq=100),
        ],
    ).history
    if model.interrupted:  # by SIGTERM: the checkpoint is written, the next run goes on
        return
    _, accuracy = model.evaluate(xt, yt, batch_size=256, verbose=0)
    if rank == 0:
        plot(history, args.output / "training_curves.png")
        seen = int(len(x) * 0.9)
        print(f"training curves: {args.output / 'training_curves.png'}")
        print(f"throughput: {seen / np.median(stopwatch.seconds):.0f} images/s over {size} rank(s)")
        print(f"test accuracy: {accuracy:.3f}")


if __name__ == "__main__":
    main()
