"""DCGAN (Radford et al. 2016) on images of 64 x 64: a step of the critic on true and made images, then one of the generator."""

from common import normal

NAME, ITEMS, UNIT = "DCGAN, batch 16", 16, "images"
NOISE, WIDTH = 100, 64


def network(m):
    nn = m.nn

    def generator():
        layers, channels = [], NOISE
        for width, stride, padding in ((8 * WIDTH, 1, 0), (4 * WIDTH, 2, 1), (2 * WIDTH, 2, 1), (WIDTH, 2, 1)):
            layers.append(nn.ConvTranspose2d(channels, width, 4, stride, padding, bias=False))
            layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            channels = width
        return nn.Sequential(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh())

    def critic():
        layers, channels = [], 3
        for width in (WIDTH, 2 * WIDTH, 4 * WIDTH, 8 * WIDTH):
            layers.append(nn.Conv2d(channels, width, 4, 2, 1, bias=False))
            layers += [nn.BatchNorm2d(width)] if channels > 3 else []
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            channels = width
        return nn.Sequential(*layers, nn.Conv2d(channels, 1, 4, bias=False), nn.Flatten(0))

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator, self.critic = generator(), critic()

    return Both()


def training(m, model):
    images, noise = normal(m, ITEMS, 3, 64, 64), normal(m, ITEMS, NOISE, 1, 1, seed=3)
    true, made = m.ones(ITEMS), m.zeros(ITEMS)
    judge = m.nn.functional.binary_cross_entropy_with_logits
    of_critic = m.optim.Adam(model.critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_generator = m.optim.Adam(model.generator.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def step():
        of_critic.zero_grad()
        drawn = model.generator(noise)
        loss = judge(model.critic(images), true) + judge(model.critic(drawn.detach()), made)
        loss.backward()
        of_critic.step()
        of_generator.zero_grad()
        judge(model.critic(drawn), true).backward()
        of_generator.step()
        return loss

    return step
