"""VGG-19 (Simonyan and Zisserman 2014, configuration E): sixteen 3x3 convolutions, three large linear layers."""

from common import classify

NAME, ITEMS, UNIT = "VGG-19, batch 4", 4, "images"
STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))  # channels, convolutions before the pooling


def network(m):
    nn = m.nn
    layers, channels = [], 3
    for width, count in STAGES:
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    classifier = nn.Sequential(
        nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 1000),
    )  # fmt: skip
    return nn.Sequential(nn.Sequential(*layers), nn.Flatten(), classifier)


def training(m, model):
    return classify(m, model, ITEMS)
