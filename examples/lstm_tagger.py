"""Tags words with their part of speech by a bidirectional LSTM, on sentences that a small grammar makes.

    python examples/lstm_tagger.py [--steps 300]

Half the nouns are verbs too ("the watch", "they watch"), so that only the words around one tell what it is. Sentences
of different lengths go through the LSTM as one packed batch. Prints the accuracy on sentences never seen, that of a
tagger which knows no context, and some tagged sentences.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

from shared import progress, say

import facula as torch
from facula import nn
from facula.nn import functional as F
from facula.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

Sentence = list[tuple[str, str]]  # words with their tags

WORDS = {
    "DET": "the a this that every some".split(),
    "ADJ": "red small light old kind clean cool open calm dry".split(),
    "NOUN": "dog tree child house river watch play walk light cook run drink plant open clean".split(),
    "VERB": "watch play walk light cook run drink plant open clean dry cool".split(),
    "PRON": "they we you I".split(),
    "PREP": "in near with under behind".split(),
    "ADV": "often never quickly here".split(),
}
TAGS = list(WORDS)


def noun_phrase(dice: random.Random) -> list[str]:
    if dice.random() < 0.3:
        return ["PRON"]
    phrase = ["DET", *["ADJ"] * dice.choice([0, 0, 1, 1, 2]), "NOUN"]
    return phrase + ["PREP", *noun_phrase(dice)] if dice.random() < 0.25 else phrase


def make_sentence(dice: random.Random) -> Sentence:
    """Return a random sentence of the grammar."""
    tags = noun_phrase(dice) + ["ADV"] * (dice.random() < 0.3) + ["VERB"]
    if dice.random() < 0.7:
        tags += noun_phrase(dice)
    tags += ["ADV"] * (dice.random() < 0.2)
    return [(dice.choice(WORDS[tag]), tag) for tag in tags]


class Tagger(nn.Module):
    """Scores of the tags, (T, N, tags), for padded word numbers (T, N) of sentences with the given lengths."""

    def __init__(self, words: int, tags: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words + 1, width, padding_idx=words)
        self.lstm = nn.LSTM(width, width, bidirectional=True)
        self.output = nn.Linear(2 * width, tags)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(self.embedding(words), lengths, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0])
        return self.output(states)


class Batch:
    """Sentences as padded numbers; a tag of -1 is padding."""

    def __init__(self, sentences: list[Sentence], vocabulary: dict[str, int]) -> None:
        words = [torch.tensor([vocabulary[word] for word, _ in sentence]) for sentence in sentences]
        tags = [torch.tensor([TAGS.index(tag) for _, tag in sentence]) for sentence in sentences]
        self.lengths = torch.tensor([len(sentence) for sentence in sentences])
        self.words = pad_sequence(words, padding_value=len(vocabulary))
        self.tags = pad_sequence(tags, padding_value=-1)


def accuracy(predicted: torch.Tensor, batch: Batch, among: torch.Tensor | None = None) -> float:
    """Share of the words tagged right; `among` chooses words, (T, N) of bool."""
    counted = batch.tags >= 0
    if among is not None:
        counted = counted & among
    return (predicted == batch.tags)[counted].float().mean().item()


def commonest_tags(sentences: list[Sentence], vocabulary: dict[str, int]) -> torch.Tensor:
    """Return what a tagger without context does: each word's most frequent tag, and padding for padding."""
    counts: dict[str, Counter[str]] = {word: Counter() for word in vocabulary}
    for sentence in sentences:
        for word, tag in sentence:
            counts[word][tag] += 1
    best = [TAGS.index(count.most_common(1)[0][0]) if count else 0 for count in counts.values()]
    return torch.tensor([*best, -1])


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    dice = random.Random(options.seed)
    torch.manual_seed(options.seed)
    sentences = [make_sentence(dice) for _ in range(2000)]
    vocabulary = {word: i for i, word in enumerate(sorted({word for words in WORDS.values() for word in words}))}
    train, test = sentences[:1600], Batch(sentences[1600:], vocabulary)
    ambiguous = {word for word in vocabulary if sum(word in words for words in WORDS.values()) > 1}
    is_ambiguous = torch.tensor([word in ambiguous for word in vocabulary] + [False])[test.words]

    model = Tagger(len(vocabulary), len(TAGS), options.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(1, options.steps + 1):
        batch = Batch(dice.sample(train, options.batch), vocabulary)
        optimizer.zero_grad()
        scores = model(batch.words, batch.lengths)
        loss = F.cross_entropy(scores.flatten(0, 1), batch.tags.flatten(), ignore_index=-1)
        loss.backward()
        optimizer.step()
        progress("step", step, options.steps, f"loss {loss.item():.4f}")

    with torch.no_grad():
        predicted = model(test.words, test.lengths).argmax(2)
    blind = commonest_tags(train, vocabulary)[test.words]
    say(f"{'':28}{'all words':>10}{'ambiguous':>12}")
    for name, tags in (("commonest tag of each word", blind), ("LSTM", predicted)):
        say(f"{name:28}{accuracy(tags, test):10.2%}{accuracy(tags, test, is_ambiguous):12.2%}")
    for column in range(3):
        words = [word for word, _ in sentences[1600 + column]]
        say(" ".join(f"{word}/{TAGS[tag]}" for word, tag in zip(words, predicted[:, column].tolist())))
    return accuracy(predicted, test)


if __name__ == "__main__":
    main()
