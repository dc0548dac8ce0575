"""A multi-layer perceptron of 4-64-64-2 units, batch 32, SGD: the time between the products."""

from common import normal, optimized

NAME, ITEMS, UNIT = "MLP, batch 32", 32, "samples"


def network(m):
    nn = m.nn
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def training(m, model):
    x, y = normal(m, ITEMS, 4), normal(m, ITEMS, 2, seed=2)
    optimizer = m.optim.SGD(model.parameters(), lr=1e-2)
    return optimized(m, optimizer, lambda: m.nn.functional.mse_loss(model(x), y))
