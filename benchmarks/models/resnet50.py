"""ResNet-50 (He et al. 2015), the stride of a bottleneck in its 3x3 convolution."""

from common import classify, look_at

NAME, ITEMS, UNIT = "ResNet-50, batch 8", 8, "images"
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width inside a block, blocks, stride of the first
EXPANSION = 4


def network(m):
    nn = m.nn

    class Bottleneck(nn.Module):
        """Convolve by 1x1, 3x3 and 1x1, each with a batch norm, and add the input."""

        def __init__(self, inputs, width, stride):
            super().__init__()
            outputs = width * EXPANSION
            self.reduce, self.norm1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
            self.spatial = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(width)
            self.expand, self.norm3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = None
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.relu(self.norm1(self.reduce(x)))
            y = self.relu(self.norm2(self.spatial(y)))
            y = self.norm3(self.expand(y))
            y += x if self.shortcut is None else self.shortcut(x)
            return self.relu(y)

    stem = (nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
    blocks, channels = [], 64
    for width, count, stride in STAGES:
        for i in range(count):
            blocks.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = width * EXPANSION
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def training(m, model):
    return classify(m, model, ITEMS)


def inference(m, model):
    return look_at(m, model)
