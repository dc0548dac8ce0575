"""GNMT version 2 (Wu et al. 2016, as MLPerf trains it): four LSTM layers a side, attention from the first decoder layer.

Its widths are the published ones, 1024 units and a shared vocabulary of 32,320 pieces. Every sentence has 24 pieces, so that
nothing is packed or masked.
"""

from common import integers, optimized

WIDTH, VOCABULARY, BATCH, LENGTH = 1024, 32320, 16, 24
NAME, ITEMS, UNIT = f"GNMTv2, batch {BATCH}", BATCH * LENGTH, "tokens"


def network(m):
    nn, F = m.nn, m.nn.functional

    class Attention(nn.Module):
        """Attend additively: the score of a query and a key is v . tanh(Wq + Uk + b) with |v| learned separately
        (normalized).
        """

        def __init__(self):
            super().__init__()
            self.query, self.key = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
            self.direction = nn.Parameter(m.randn(1, WIDTH) * WIDTH**-0.5)
            self.scale, self.bias = nn.Parameter(m.ones(1)), nn.Parameter(m.zeros(WIDTH))

        def forward(self, queries, memory):  # (N, T, WIDTH) and (N, S, WIDTH)
            both = self.query(queries)[:, :, None] + self.key(memory)[:, None] + self.bias
            v = self.direction[0] / self.direction.norm() * self.scale
            weights = F.softmax(m.tanh(both).matmul(v), dim=-1)
            return m.bmm(weights, memory)

        def own_products(self, inputs, output):
            queries, memory = inputs
            return 2 * queries.numel() * memory.shape[1]

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.pieces = nn.Embedding(VOCABULARY, WIDTH)
            self.both_ways = nn.LSTM(WIDTH, WIDTH, bidirectional=True)
            self.encoder = nn.ModuleList([nn.LSTM(2 * WIDTH if i == 0 else WIDTH, WIDTH) for i in range(3)])
            self.first = nn.LSTM(WIDTH, WIDTH)
            self.attention = Attention()
            self.decoder = nn.ModuleList([nn.LSTM(2 * WIDTH, WIDTH) for _ in range(3)])
            self.dropout = nn.Dropout(0.2)
            self.classifier = nn.Linear(WIDTH, VOCABULARY)

        def encode(self, source):  # (S, N)
            x, _ = self.both_ways(self.dropout(self.pieces(source)))
            for i, layer in enumerate(self.encoder):
                y, _ = layer(self.dropout(x))
                x = y + x if i else y
            return x

        def decode(self, target, memory):  # (T, N) and (S, N, WIDTH)
            x, _ = self.first(self.dropout(self.pieces(target)))
            context = self.attention(x.transpose(0, 1), memory.transpose(0, 1)).transpose(0, 1)
            for i, layer in enumerate(self.decoder):
                y, _ = layer(self.dropout(m.cat([x, context], dim=2)))
                x = y + x if i else y
            return self.classifier(x)

        def forward(self, source, target):
            return self.decode(target, self.encode(source))

    return Translator()


def training(m, model):
    source = integers(m, VOCABULARY, LENGTH, BATCH, seed=2)
    target = integers(m, VOCABULARY, LENGTH + 1, BATCH, seed=3)
    optimizer = m.optim.Adam(model.parameters(), lr=1e-4)
    criterion = m.nn.CrossEntropyLoss(label_smoothing=0.1)

    def loss():
        return criterion(model(source, target[:-1]).flatten(0, 1), target[1:].flatten())

    return optimized(m, optimizer, loss)
