"""Policy gradient on a pole that a cart balances: the environment in Python, a small network called once per step.

An episode runs for 300 steps, whatever falls over, so that every step of the benchmark does the same work.
"""

import math
import random

LENGTH, DISCOUNT = 300, 0.99
NAME, ITEMS, UNIT = "REINFORCE, 300 steps", LENGTH, "environment steps"


class Pole:
    """Simulate cart and pole after Barto, Sutton and Anderson (1983), by Euler's method."""

    GRAVITY, POLE, CART, HALF, FORCE, TICK = 9.8, 0.1, 1.0, 0.5, 10.0, 0.02

    def __init__(self, random):
        self.random = random
        self.reset()

    def reset(self):
        self.place, self.speed, self.angle, self.turn = (self.random.uniform(-0.05, 0.05) for _ in range(4))
        return [self.place, self.speed, self.angle, self.turn]

    def act(self, right):
        force, sine, cosine = (self.FORCE if right else -self.FORCE), math.sin(self.angle), math.cos(self.angle)
        mass, moment = self.CART + self.POLE, self.POLE * self.HALF
        push = (force + moment * self.turn**2 * sine) / mass
        inertia = self.HALF * (4 / 3 - self.POLE * cosine**2 / mass)
        turning = (self.GRAVITY * sine - cosine * push) / inertia
        moving = push - moment * turning * cosine / mass
        self.place += self.TICK * self.speed
        self.speed += self.TICK * moving
        self.angle += self.TICK * self.turn
        self.turn += self.TICK * turning
        fallen = abs(self.place) > 2.4 or abs(self.angle) > 0.21
        return [self.place, self.speed, self.angle, self.turn], fallen


def returns_of(rewards):
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total = reward + DISCOUNT * total
        returns.append(total)
    return returns[::-1]


def network(m):
    nn = m.nn
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))


def training(m, model):
    optimizer = m.optim.Adam(model.parameters(), lr=1e-2)
    chance = random.Random(0)
    pole = Pole(chance)

    def step():
        state, logs, rewards = pole.reset(), [], []
        for _ in range(LENGTH):
            scores = m.log_softmax(model(m.tensor(state)), dim=0)
            action = int(chance.random() > math.exp(scores[0].item()))
            logs.append(scores[action])
            state, fallen = pole.act(action)
            rewards.append(0.0 if fallen else 1.0)
            if fallen:
                state = pole.reset()
        returns = m.tensor(returns_of(rewards))
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = -(m.stack(logs) * returns).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step
