"""An LSTM cell of 64 units, unrolled by the program over 64 steps of one sequence: many small ops in a row."""

from common import normal, optimized

WIDTH, LENGTH = 64, 64
NAME, ITEMS, UNIT = "LSTM cell unrolled, batch 1", LENGTH, "cell steps"


def network(m):
    nn = m.nn

    class Unrolled(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, sequence):
            h, c = m.zeros(1, WIDTH), m.zeros(1, WIDTH)
            for x in sequence:
                h, c = self.cell(x, (h, c))
            return self.out(h)

    return Unrolled()


def training(m, model):
    sequence, target = normal(m, LENGTH, 1, WIDTH), normal(m, 1, WIDTH, seed=2)
    optimizer = m.optim.SGD(model.parameters(), lr=1e-2)
    return optimized(m, optimizer, lambda: m.nn.functional.mse_loss(model(sequence), target))


def inference(m, model):
    sequence = normal(m, LENGTH, 1, WIDTH)

    def answer():
        with m.inference_mode():
            return model(sequence)

    return answer
