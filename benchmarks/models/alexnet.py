"""AlexNet, in the one-tower form of Krizhevsky (2014): five convolutions, three large linear layers."""

from common import classify

NAME, ITEMS, UNIT = "AlexNet, batch 32", 32, "images"


def network(m):
    nn = m.nn
    features = nn.Sequential(
        nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
    )  # fmt: skip
    classifier = nn.Sequential(
        nn.Dropout(0.5), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True),
        nn.Dropout(0.5), nn.Linear(4096, 4096), nn.ReLU(inplace=True),
        nn.Linear(4096, 1000),
    )  # fmt: skip
    return nn.Sequential(features, nn.Flatten(), classifier)


def training(m, model):
    return classify(m, model, ITEMS)
