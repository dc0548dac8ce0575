"""A GPT of six layers, 384 wide, six heads, context 256, on bytes: decoder blocks with the norm first, AdamW, no dropout."""

from common import integers, optimized

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, BATCH = 6, 384, 6, 256, 256, 8
NAME, ITEMS, UNIT = f"GPT, batch {BATCH}", BATCH * CONTEXT, "tokens"


def network(m):
    nn, F = m.nn, m.nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = self.qkv(x).split(WIDTH, dim=2)
            q, k, v = (t.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).contiguous().view(batch, length, WIDTH))

        def own_products(self, inputs, output):
            # what a query sees: half of the positions
            return inputs[0].numel() * (CONTEXT + 1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
            self.norm2 = nn.LayerNorm(WIDTH)
            self.perceptron = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.perceptron(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.bytes, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, x):
            x = self.bytes(x) + self.places(m.arange(x.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def training(m, model):
    text = integers(m, VOCABULARY, BATCH, CONTEXT + 1)
    x, y = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    optimizer = m.optim.AdamW(model.parameters(), lr=1e-3)
    return optimized(m, optimizer, lambda: m.nn.functional.cross_entropy(model(x).view(-1, VOCABULARY), y.view(-1)))


def inference(m, model):
    text = integers(m, VOCABULARY, 1, CONTEXT)
    model.eval()

    def answer():
        with m.inference_mode():
            return model(text)

    return answer
