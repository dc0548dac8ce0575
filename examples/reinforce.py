"""Learns to balance a pole on a cart by REINFORCE: trial, error, and the gradient of the log-probability.

    python examples/reinforce.py [--updates 100]

The environment is below: the cart and pole of Barto, Sutton and Anderson (1983), many of them at once as tensors. The
policy is a small network; what it did is made likelier in proportion to the reward that followed, compared with what
the others got at the same time (Williams, 1992). Prints how many steps the poles stay up; 200 is the most.
"""

from __future__ import annotations

import argparse

from shared import progress, say

import facula as torch
from facula import nn
from facula.nn import functional as F

GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5  # m/s^2, kg, kg, m
FORCE, INTERVAL = 10.0, 0.02  # N, s
TRACK, TILT = 2.4, 0.21  # m, rad: farther out, the trial has ended
LONGEST = 200  # steps


class CartPoles:
    """`count` carts on a track, each with a pole on a hinge. The state is (count, 4): place, speed, tilt, turning speed."""

    def __init__(self, count: int) -> None:
        self.state = torch.rand(count, 4) * 0.1 - 0.05

    def step(self, pushes: torch.Tensor) -> torch.Tensor:
        """Push each cart left (0) or right (1) for one interval; tell which poles are still up, (count,) of bool."""
        place, speed, tilt, turning = self.state.unbind(1)
        force = FORCE * (2.0 * pushes - 1)
        sine, cosine, mass = tilt.sin(), tilt.cos(), CART_MASS + POLE_MASS
        shared = (force + POLE_MASS * HALF_LENGTH * turning**2 * sine) / mass
        lever = HALF_LENGTH * (4 / 3 - POLE_MASS * cosine**2 / mass)
        turning_rate = (GRAVITY * sine - cosine * shared) / lever
        speed_rate = shared - POLE_MASS * HALF_LENGTH * turning_rate * cosine / mass
        change = torch.stack([speed, speed_rate, turning, turning_rate], 1)
        self.state = self.state + INTERVAL * change
        return (self.state[:, 0].abs() < TRACK) & (self.state[:, 2].abs() < TILT)


def run(policy: nn.Module, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Play `count` trials; return the log-probabilities of the pushes and which were made with the pole up, both (T, count)."""
    world, up = CartPoles(count), torch.ones(count, dtype=torch.bool)
    chosen, alive = [], []
    for _ in range(LONGEST):
        scores = F.log_softmax(policy(world.state), 1)
        pushes = torch.multinomial(scores.exp().detach(), 1)
        chosen.append(scores.gather(1, pushes).squeeze(1))
        alive.append(up)
        up = up & world.step(pushes.squeeze(1))
        if not up.any():
            break
    return torch.stack(chosen), torch.stack(alive)


def advantages(alive: torch.Tensor, discount: float) -> torch.Tensor:
    """Return the reward that follows each step, one for each step up, later ones discounted; scaled against the other
    trials."""
    rewards, total, following = alive.float(), torch.zeros(alive.shape[1]), []
    for reward in rewards.flip(0):
        total = reward + discount * total
        following.append(total)
    returns = torch.stack(following[::-1])
    mean = returns[alive].mean()
    return (returns - mean) / (returns[alive].std() + 1e-6)


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--trials", type=int, default=64, help="trials played for one update")
    parser.add_argument("--discount", type=float, default=0.98)
    parser.add_argument("--rate", type=float, default=5e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=options.rate)
    for update in range(1, options.updates + 1):
        chosen, alive = run(policy, options.trials)
        optimizer.zero_grad()
        loss = -(chosen * advantages(alive, options.discount))[alive].mean()
        loss.backward()
        optimizer.step()
        length = alive.sum(0).float().mean().item()
        progress("update", update, options.updates, f"{length:.0f} steps")
        if update % max(options.updates // 10, 1) == 0 or update == 1:
            say(f"update {update:3d}  mean length of a trial {length:6.1f} steps")

    with torch.no_grad():
        lengths = run(policy, 100)[1].sum(0)
    mean = lengths.float().mean().item()
    say(f"after training: {mean:.1f} steps on average, {(lengths == LONGEST).sum().item()} of 100 poles never fell")
    return mean


if __name__ == "__main__":
    main()
