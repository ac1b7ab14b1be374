#!/usr/bin/env python3
"""Trains a small neural network to tell the two arms of a spiral apart.

Needs nothing but Python 3. Appends the result of each epoch to the file named by
SWEEPCTL_METRICS, if that is set, as one JSON object a line.
"""

import argparse
import csv
import json
import math
import os
import random
from pathlib import Path


def read_points(path):
    with open(path, newline="") as file:
        return [(float(row["x"]), float(row["y"]), int(row["arm"])) for row in csv.DictReader(file)]


class Network:
    """Two inputs, one hidden layer of tanh units, one sigmoid output."""

    def __init__(self, hidden):
        self.units = [[random.gauss(0, 2), random.gauss(0, 2), random.gauss(0, 1)] for _ in range(hidden)]
        self.weights = [random.gauss(0, 1) / math.sqrt(hidden) for _ in range(hidden)]
        self.bias = 0.0

    def forward(self, x, y):
        active = [math.tanh(a * x + b * y + c) for a, b, c in self.units]
        score = self.bias + sum(w * h for w, h in zip(self.weights, active))
        score = max(-30.0, min(30.0, score))
        return active, 1 / (1 + math.exp(-score))

    def learn(self, x, y, arm, lr):
        """One step of stochastic gradient descent on the cross-entropy."""
        active, guess = self.forward(x, y)
        step = lr * (guess - arm)
        self.bias -= step
        for i, (unit, h) in enumerate(zip(self.units, active)):
            inner = step * self.weights[i] * (1 - h * h)
            self.weights[i] -= step * h
            unit[0] -= inner * x
            unit[1] -= inner * y
            unit[2] -= inner

    def evaluate(self, points):
        loss = right = 0
        for x, y, arm in points:
            guess = self.forward(x, y)[1]
            loss -= math.log(guess if arm else 1 - guess)
            right += (guess > 0.5) == (arm == 1)
        return loss / len(points), right / len(points)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate")
    parser.add_argument("--hidden", type=int, default=8, help="units of the hidden layer")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    random.seed(args.seed)
    points = read_points(Path(__file__).parent / "data.csv")
    held_out, training = points[:80], points[80:]
    network = Network(args.hidden)
    metrics = os.environ.get("SWEEPCTL_METRICS")
    for epoch in range(1, args.epochs + 1):
        random.shuffle(training)
        for point in training:
            network.learn(*point, args.lr)
        loss, accuracy = network.evaluate(held_out)
        if metrics:
            with open(metrics, "a") as file:
                row = {"epoch": epoch, "loss": round(loss, 5), "accuracy": accuracy}
                file.write(json.dumps(row) + "\n")
        if epoch % 20 == 0 or epoch == args.epochs:
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
