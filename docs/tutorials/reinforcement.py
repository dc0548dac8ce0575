# %% [markdown]
# # Reinforcement learning
#
# A boat learns to cross a river with a rock in it by actor and critic: one network acts, the other says what to expect.
#
# There are no labels: the program tries, gets rewards, and makes likelier what went better than expected. The
# environment is written here with tensors, so that 64 boats sail at the same time in one batch.

# %%
from matplotlib import pyplot as plt

import facula as torch
from facula import nn

torch.manual_seed(0)
GOAL, ROCK, RADIUS = torch.tensor([0.5, 0.9]), torch.tensor([0.5, 0.5]), 0.15
ANGLES = torch.arange(8) * torch.pi / 4
MOVES = 0.06 * torch.stack([ANGLES.cos(), ANGLES.sin()], 1)  # eight directions


class River:
    """Boats on a square; the current in the middle pushes them to the right."""

    def __init__(self, count):
        self.place = self.start(count)

    def start(self, count):
        return torch.stack([0.05 + 0.9 * torch.rand(count), 0.05 + 0.15 * torch.rand(count)], 1)

    def step(self, moves):
        """Move every boat; return rewards and which trips have ended. Ended boats begin anew."""
        current = 0.03 * torch.exp(-((self.place[:, 1] - 0.5) ** 2) / 0.05)
        self.place = self.place + MOVES[moves] + torch.stack([current, torch.zeros_like(current)], 1)
        there = (self.place - GOAL).norm(dim=1) < 0.08
        lost = ((self.place - ROCK).norm(dim=1) < RADIUS) | (self.place < 0).any(1) | (self.place > 1).any(1)
        ended = there | lost
        self.place = torch.where(ended[:, None], self.start(len(moves)), self.place)
        return 1.0 * there - 1.0 * lost - 0.02, ended, there


# %% [markdown]
# ## Actor and critic
#
# The actor gives the chances of the eight directions. The critic predicts the sum of all rewards to come. What
# matters for an action is not its reward but its *advantage*: how much better things went than the critic expected.
# Later rewards count less, by the factor DISCOUNT for each step.


# %%
def network(outputs):
    return nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


actor, critic = network(8), network(1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
DISCOUNT, LENGTH, COUNT = 0.99, 32, 64
river, history = River(COUNT), []
for update in range(400):
    places, moves, rewards, ends, arrived = [], [], [], [], 0
    for _ in range(LENGTH):  # sail, without gradients
        with torch.no_grad():
            move = torch.distributions.Categorical(logits=actor(2 * river.place - 1)).sample()
        places.append(river.place)
        moves.append(move)
        reward, ended, there = river.step(move)
        rewards.append(reward)
        ends.append(ended)
        arrived += there.sum().item()

    seen = 2 * torch.stack(places) - 1
    values = critic(seen)[..., 0]
    with torch.no_grad():
        future, returns = critic(2 * river.place - 1)[:, 0], []
        for reward, ended in zip(reversed(rewards), reversed(ends)):
            future = reward + DISCOUNT * torch.where(ended, 0.0, future)
            returns.insert(0, future)
        returns = torch.stack(returns)
        advantage = returns - values
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    policy = torch.distributions.Categorical(logits=actor(seen))
    gain = (policy.log_prob(torch.stack(moves)) * advantage).mean()
    loss = -gain + 0.5 * (returns - values).square().mean() - 0.02 * policy.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    trips = torch.stack(ends).sum().item()
    history.append(100 * arrived / max(trips, 1))
    if update % 100 == 99:
        print(f"update {update + 1}: {history[-1]:.0f} % of {trips} trips arrive")

# %% [markdown]
# The entropy in the loss rewards an actor that is not too sure. Without it, it soon takes one direction only, and never
# finds out that another one is better.
#
# ## What it has learned

# %%
line = torch.linspace(0, 1, 80)
grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)
river = River(12)
with torch.no_grad():
    value = critic(2 * grid - 1)[..., 0]
    tracks, sailing = [river.place], torch.ones(12, dtype=torch.bool)
    for _ in range(40):
        _, ended, _ = river.step(actor(2 * river.place - 1).argmax(1))
        sailing = sailing & ~ended
        tracks.append(torch.where(sailing[:, None], river.place, torch.nan))
tracks = torch.stack(tracks)
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.6), layout="constrained")
shown = axes[0].pcolormesh(line, line, value, cmap="viridis", rasterized=True)
figure.colorbar(shown, ax=axes[0], label="expected reward")
axes[0].plot(tracks[..., 0], tracks[..., 1], color="white", linewidth=1)
axes[0].add_patch(plt.Circle(ROCK.tolist(), RADIUS, color="black"))
axes[0].scatter(*GOAL, marker="*", s=160, color="gold", zorder=3)
axes[0].set(aspect="equal", xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1), title="what the critic expects, how boats sail")
axes[1].plot(history)
axes[1].set(xlabel="update", ylabel="trips that arrive, %")

# %% [markdown]
# The critic has found the rock, and that the right bank is worse than the left: the current drives boats away.
# `examples/reinforce.py` balances a pole on a cart, without a critic.
