"""Process tables and series: forecasts and recommendations."""

from __future__ import annotations

import torch
from kinds import Step, application, fill, integers, normal, trained


@application("a forecast by nn.LSTM: 64 series of 48 steps, two layers of 64")
def lstm_forecasts() -> Step:
    recurrent, head = torch.nn.LSTM(8, 64, 2, batch_first=True), torch.nn.Linear(64, 1)
    model = fill(torch.nn.ModuleList([recurrent, head]))
    series, wanted = normal(64, 48, 8), normal(64, 1, seed=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return trained(model, optimizer, lambda: torch.nn.functional.mse_loss(head(recurrent(series)[0][:, -1]), wanted))


class Recommender(torch.nn.Module):
    """Predict clicks as DLRM does: embedded categories and embedded numbers meet in products of pairs."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.tables = nn.ModuleList([nn.EmbeddingBag(10000, 16, mode="sum") for _ in range(8)])
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(52, 64), nn.ReLU(), nn.Linear(64, 1))
        self.pairs = torch.tril_indices(9, 9, -1)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(numbers)
        rows = torch.stack([dense, *(table(categories[:, i]) for i, table in enumerate(self.tables))], 1)
        met = torch.bmm(rows, rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([dense, met], 1)).squeeze(1)


@application("DLRM: 8 tables of 10,000 rows, 128 samples")
def dlrm() -> Step:
    model = fill(Recommender())
    numbers, categories, clicked = normal(128, 13), integers(10000, 128, 8, 4), integers(2, 128).float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    return trained(model, optimizer, lambda: loss(model(numbers, categories), clicked))


@application("a perceptron on a table: 512 rows of 64 columns, batch norm, dropout, AdamW", exact=False)
def tabular() -> Step:
    nn = torch.nn
    layers = []
    for inputs, outputs in ((64, 256), (256, 128)):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU(), nn.Dropout(0.1)]
    model = fill(nn.Sequential(*layers, nn.Linear(128, 10)))
    rows, labels = normal(512, 64), integers(10, 512)
    optimizer = torch.optim.AdamW(model.parameters())
    return trained(model, optimizer, lambda: nn.functional.cross_entropy(model(rows), labels))
