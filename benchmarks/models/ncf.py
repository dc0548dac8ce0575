"""Neural collaborative filtering (He et al. 2017), the sizes of MovieLens-20M: 138,493 users, 26,744 films, dense Adam."""

from common import integers, optimized

USERS, FILMS, FACTORS, LAYERS, BATCH = 138_493, 26_744, 64, (256, 256, 128, 64), 2048
NAME, ITEMS, UNIT = f"NCF, batch {BATCH}", BATCH, "samples"


def network(m):
    nn = m.nn

    class NeuralCollaborativeFiltering(nn.Module):
        """Join a product of factors and a multi-layer perceptron by one linear layer."""

        def __init__(self):
            super().__init__()
            half = LAYERS[0] // 2
            self.user_factors, self.film_factors = nn.Embedding(USERS, FACTORS), nn.Embedding(FILMS, FACTORS)
            self.user_features, self.film_features = nn.Embedding(USERS, half), nn.Embedding(FILMS, half)
            layers = []
            for inputs, outputs in zip(LAYERS, LAYERS[1:]):
                layers += [nn.Linear(inputs, outputs), nn.ReLU()]
            self.perceptron = nn.Sequential(*layers)
            self.join = nn.Linear(FACTORS + LAYERS[-1], 1)

        def forward(self, users, films):
            product = self.user_factors(users) * self.film_factors(films)
            deep = self.perceptron(m.cat([self.user_features(users), self.film_features(films)], dim=1))
            return self.join(m.cat([product, deep], dim=1)).squeeze(1)

    return NeuralCollaborativeFiltering()


def training(m, model):
    users, films = integers(m, USERS, BATCH, seed=2), integers(m, FILMS, BATCH, seed=3)
    liked = integers(m, 2, BATCH, seed=4).float()
    optimizer = m.optim.Adam(model.parameters(), lr=1e-3)
    criterion = m.nn.BCEWithLogitsLoss()
    return optimized(m, optimizer, lambda: criterion(model(users, films), liked))
