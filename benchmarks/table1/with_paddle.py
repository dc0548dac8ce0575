"""Train with PaddlePaddle: the networks of paddle.vision.models, run eagerly."""

import paddle
from data import images, ratings
from ncf import FACTORS, FILMS, LAYERS, USERS
from paddle import nn


class NCF(nn.Layer):
    def __init__(self):
        super().__init__()
        half = LAYERS[0] // 2
        self.user_factors, self.film_factors = nn.Embedding(USERS, FACTORS), nn.Embedding(FILMS, FACTORS)
        self.user_features, self.film_features = nn.Embedding(USERS, half), nn.Embedding(FILMS, half)
        stack = []
        for inputs, outputs in zip(LAYERS, LAYERS[1:]):
            stack += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.perceptron = nn.Sequential(*stack)
        self.join = nn.Linear(FACTORS + LAYERS[-1], 1)

    def forward(self, users, films):
        product = self.user_factors(users) * self.film_factors(films)
        deep = self.perceptron(paddle.concat([self.user_features(users), self.film_features(films)], axis=1))
        return self.join(paddle.concat([product, deep], axis=1)).squeeze(1)


def training(name, batch, threads):  # FLAGS_paddle_num_threads sets them, while Paddle is imported
    paddle.set_device("cpu")
    if name == "ncf":
        model, criterion = NCF(), nn.BCEWithLogitsLoss()
        *inputs, target = map(paddle.to_tensor, ratings(batch))
        optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    else:
        model, criterion = getattr(paddle.vision.models, name)(), nn.CrossEntropyLoss()
        *inputs, target = map(paddle.to_tensor, images(batch, channels_last=False))
        optimizer = paddle.optimizer.Momentum(1e-3, 0.9, parameters=model.parameters(), weight_decay=1e-4)

    def step():
        loss = criterion(model(*inputs), target)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return float(loss)

    return step
