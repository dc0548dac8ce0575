# %% [markdown]
# # Classifying text
#
# A small transformer learns whether a review is friendly, and shows which words its decision rests on.
#
# A word of a review says little by itself: "good" is praise, "not good" is not, and "very" makes either stronger. A model
# that only adds up words cannot know that. A transformer lets each word look at the others. The reviews are made here, so
# that the right answer is known.

# %%
import random

from matplotlib import pyplot as plt

import facula as torch
from facula import nn
from facula.nn import functional as F

torch.manual_seed(0)
random.seed(0)
THINGS = "soup bread fish waiter music room price dessert wine garden".split()
WORDS = {"great": 2, "good": 1, "friendly": 1, "fine": 1, "slow": -1, "cold": -1, "bad": -1, "awful": -2}


def clause():
    """Return a part of a review, and its score: `not` turns it around, `very` doubles it."""
    denied, very, word = random.random() < 0.4, random.random() < 0.3, random.choice(list(WORDS))
    text = f"the {random.choice(THINGS)} was {'not ' * denied}{'very ' * very}{word}"
    return text, WORDS[word] * (2 if very else 1) * (-1 if denied else 1)


def review():
    """Return a review and whether it is friendly."""
    while True:
        parts = [clause() for _ in range(random.randint(1, 3))]
        if total := sum(score for _, score in parts):
            return random.choice((" and ", " but ")).join(text for text, _ in parts), int(total > 0)


review(), review(), review()

# %% [markdown]
# ## Words as numbers
#
# A batch has to be a rectangle, so short reviews are filled up with padding, which is number 0. In training, one word in
# ten is replaced by `<gone>`. So the models learn to judge with a word missing, which is used below.

# %%
vocabulary = ["<pad>", "<all>", "<gone>", *sorted({*THINGS, *WORDS, "the", "was", "not", "very", "and", "but"})]
number = {word: i for i, word in enumerate(vocabulary)}


def batch_of(reviews, gone=0.0):
    """Return numbers of words, (reviews, longest), each row behind the word <all>; a share of the words is gone."""
    rows = [torch.tensor([number[word] for word in f"<all> {text}".split()]) for text in reviews]
    found = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return found.masked_fill((torch.rand(found.shape) < gone) & (found > 1), number["<gone>"])


# %% [markdown]
# ## Two models
#
# The first adds up a vector for each word. The second is a transformer: the mask keeps words from looking at padding, and
# the result is read from the word `<all>`, which looks at the whole review.


# %%
class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(len(vocabulary), 32, padding_idx=0), nn.Linear(32, 2)

    def forward(self, x):
        return self.head(self.words(x).sum(1))


class Transformer(nn.Module):
    def __init__(self, width=32, longest=32):
        super().__init__()
        self.words, self.places = nn.Embedding(len(vocabulary), width), nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, 2)

    def forward(self, x):
        found = self.words(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.layers(found, src_key_padding_mask=x == 0)[:, 0])


tests, answers = zip(*(review() for _ in range(1000)))
tests, answers = batch_of(tests), torch.tensor(answers)
for model in (BagOfWords(), Transformer()):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=800)
    for _ in range(800):
        texts, friendly = zip(*(review() for _ in range(64)))
        loss = F.cross_entropy(model(batch_of(texts, gone=0.1)), torch.tensor(friendly))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        right = (model(tests).argmax(1) == answers).float().mean()
    print(f"{type(model).__name__:12} right on new reviews: {100 * right:.1f} %")

# %% [markdown]
# ## Which words matter?
#
# One word at a time is replaced by `<gone>`. By how much the score changes says what the word adds: blue words speak for
# a friendly review, red ones against it.


# %%
@torch.no_grad()
def influence(text):
    words = text.split()
    without = [" ".join([*words[:i], "<gone>", *words[i + 1 :]]) for i in range(len(words))]
    scores = model(batch_of([text, *without])).diff(dim=1)[:, 0]
    return scores[0].item(), scores[0] - scores[1:]


figure, axes = plt.subplots(figsize=(9, 2.6))
examples = (
    "the soup was great but the waiter was slow", "the soup was not great but the waiter was slow",
    "the wine was not bad and the garden was very good", "the room was not very friendly and the music was fine",
)  # fmt: skip
for line, text in enumerate(examples):
    score, changes = influence(text)
    place = 0.0
    for word, change in zip([f"{'friendly' if score > 0 else 'unfriendly'}:", *text.split()], [0.0, *changes.tolist()]):
        color = plt.get_cmap("RdBu")(0.5 + max(-0.4, min(0.4, change / 20)))
        axes.text(place, -line, word, family="monospace", bbox={"facecolor": color, "linewidth": 0, "pad": 2})
        place += 0.0125 * (len(word) + 1) if word[-1] != ":" else 0.16
axes.set(xlim=(0, 1), ylim=(-len(examples) + 0.5, 0.6))
axes.set_axis_off()

# %% [markdown]
# [A GPT](gpt.py) shows how a transformer writes text instead of judging it.
