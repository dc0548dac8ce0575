"""U-Net (Ronneberger et al. 2015), a quarter as wide, with padding and batch norms: down and up, joined at every level."""

from common import integers, normal, optimized

NAME, ITEMS, UNIT = "U-Net, batch 2", 2, "images"
SIZE, CLASSES = 160, 2
WIDTHS = (16, 32, 64, 128, 256)


def network(m):
    nn = m.nn

    def twice(inputs, outputs):
        layers = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList([twice(i, o) for i, o in zip((3, *WIDTHS), WIDTHS)])
            self.pool = nn.MaxPool2d(2)
            above = list(zip(WIDTHS[::-1], WIDTHS[-2::-1]))
            self.larger = nn.ModuleList([nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in above])
            self.up = nn.ModuleList([twice(2 * o, o) for _, o in above])
            self.classes = nn.Conv2d(WIDTHS[0], CLASSES, 1)

        def forward(self, x):
            levels = []
            for down in self.down:
                x = down(self.pool(x) if levels else x)
                levels.append(x)
            for larger, up, beside in zip(self.larger, self.up, levels[-2::-1]):
                x = up(m.cat([beside, larger(x)], 1))
            return self.classes(x)

    return UNet()


def training(m, model):
    images, labels = normal(m, ITEMS, 3, SIZE, SIZE), integers(m, CLASSES, ITEMS, SIZE, SIZE)
    optimizer = m.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return optimized(m, optimizer, lambda: m.nn.functional.cross_entropy(model(images), labels))
