# %% [markdown]
# # A GPT
#
# A small transformer learns to write Python, character by character, from the sources of `facula.nn`.

# %%
import math
from pathlib import Path

import facula as torch
from facula import nn
from facula.nn import functional as F

torch.manual_seed(0)
folder = Path(nn.__file__).parent / "modules"
words = "\n".join(path.read_text() for path in sorted(folder.glob("*.py")))
alphabet = sorted(set(words))
number = {character: i for i, character in enumerate(alphabet)}
text = torch.tensor([number[character] for character in words])
kept = len(text) * 9 // 10
training, held_out = text[:kept], text[kept:]
len(alphabet)

# %% [markdown]
# ## The model
#
# In each block, every position reads those before it (`is_causal=True`), then is transformed by itself. Both results
# are added to the input.


# %%
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, context=32, width=64, layers=2, heads=4):
        super().__init__()
        self.context = context
        self.characters, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, x):
        x = self.characters(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x)))


model = GPT(len(alphabet))
sum(p.numel() for p in model.parameters())

# %% [markdown]
# ## Training
#
# A batch consists of 32 pieces of the text, and the target of each character is the next one. The loss in bits per
# character says how uncertain the model is. A model that has learned nothing needs as many bits as it takes to choose
# one of all characters.


# %%
def loss_of(source, count=32):
    places = torch.randint(len(source) - model.context, (count, 1)) + torch.arange(model.context)
    return F.cross_entropy(model(source[places]).flatten(0, 1), source[places + 1].flatten())


steps = 300
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
print(f"a guess      {math.log2(len(alphabet)):.2f} bits per character")
for step in range(1, steps + 1):
    optimizer.zero_grad()
    loss = loss_of(training)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 75 == 0:
        with torch.no_grad():
            print(f"step {step:4d}    {loss_of(held_out, 128).item() / math.log(2):.2f} bits per character of held-out text")

# %% [markdown]
# ## Writing
#
# The next character is drawn from the ten most likely ones and added to the text.


# %%
@torch.no_grad()
def write(start, length, temperature=0.7):
    found = torch.tensor([[number[character] for character in start]])
    for _ in range(length):
        scores = model(found[:, -model.context :])[:, -1] / temperature
        best, characters = scores.topk(10)
        found = torch.cat([found, characters.gather(1, torch.multinomial(best.softmax(1), 1))], 1)
    return "".join(alphabet[i] for i in found[0].tolist())


print(write("class ", 300))

# %% [markdown]
# `examples/char_gpt.py` trains on any text file. [Performance](../performance.md) compares its step with PyTorch's.
