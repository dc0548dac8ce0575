"""Writes distributions_golden.json: samples of PyTorch's distributions for a seed.

Needs PyTorch 2.13, and is run by hand: `ATEN_CPU_CAPABILITY=avx2 python tests/data/make_distributions_golden.py`. Up to eight elements,
with eight digits: the last one may differ where a family takes a matrix product or a softmax, for those depend on the machine.
"""

import json
import warnings
from pathlib import Path

SEED, SHAPE, ELEMENTS, DIGITS = 11, (3,), 8, 8
CALLS = """
Normal(torch.tensor([0.5, -1.0]), torch.tensor([1.0, 2.0]))
Uniform(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 4.0]))
Bernoulli(torch.tensor([0.2, 0.7]))
Binomial(torch.tensor([4.0, 50.0]), torch.tensor([0.2, 0.7]))
Beta(torch.tensor([0.5, 2.0]), torch.tensor([0.3, 5.0]))
Categorical(torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]))
Cauchy(torch.tensor([0.0, 1.0]), 2.0)
Chi2(torch.tensor([1.0, 4.0]))
ContinuousBernoulli(torch.tensor([0.2, 0.5]))
Dirichlet(torch.tensor([[0.5, 1.5, 3.0]]))
Exponential(torch.tensor([0.5, 2.0]))
FisherSnedecor(torch.tensor([3.0, 5.0]), torch.tensor([4.0, 7.0]))
Gamma(torch.tensor([0.3, 2.0, 40.0]), 2.0)
GeneralizedPareto(0.0, 1.0, torch.tensor([-0.3, 0.0, 0.4]))
Geometric(torch.tensor([0.2, 0.7]))
Gumbel(torch.tensor([0.0, 1.0]), 2.0)
HalfCauchy(torch.tensor([1.0, 2.0]))
HalfNormal(torch.tensor([1.0, 2.0]))
Independent(Normal(torch.zeros(2, 3), 1.0), 1)
InverseGamma(torch.tensor([2.0, 3.0]), 1.0)
Kumaraswamy(torch.tensor([0.5, 2.0]), torch.tensor([1.5, 3.0]))
LKJCholesky(3, torch.tensor([0.5, 2.0]))
Laplace(torch.tensor([0.0, 1.0]), 2.0)
LogNormal(torch.tensor([0.0, 0.5]), 0.5)
LogisticNormal(torch.zeros(2), torch.ones(2))
LowRankMultivariateNormal(torch.zeros(3), torch.tensor([[1.0], [0.5], [2.0]]), torch.ones(3))
MixtureSameFamily(Categorical(torch.tensor([0.3, 0.7])), Normal(torch.tensor([-3.0, 3.0]), 1.0))
Multinomial(10, torch.tensor([0.2, 0.3, 0.5]))
MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]]))
NegativeBinomial(torch.tensor([2.0, 5.5]), torch.tensor([0.4, 0.6]))
OneHotCategorical(torch.tensor([[0.2, 0.3, 0.5]]))
Pareto(torch.tensor([1.0, 2.0]), 3.0)
Poisson(torch.tensor([0.5, 30.0]))
RelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.2, 0.7]))
RelaxedOneHotCategorical(torch.tensor(0.5), torch.tensor([0.2, 0.3, 0.5]))
StudentT(torch.tensor([2.0, 6.0]), 1.0, 2.0)
VonMises(torch.tensor([0.0, 2.0]), torch.tensor([0.5, 4.0]))
Weibull(torch.tensor([1.0, 2.0]), torch.tensor([0.7, 3.0]))
Wishart(torch.tensor([4.0, 6.5]), torch.eye(2))
"""


def row(call):
    import torch

    torch.manual_seed(SEED)
    sample = eval(call, {"torch": torch, **vars(torch.distributions)}).sample(SHAPE)
    values = sample.double().flatten()[:ELEMENTS].tolist()
    return {"call": call, "shape": list(sample.shape), "values": [float(f"{v:.{DIGITS}g}") for v in values]}


def main():
    warnings.simplefilter("ignore")  # Wishart tells of singular samples, which it draws again
    rows = [row(call) for call in CALLS.strip().splitlines()]
    Path(__file__).with_name("distributions_golden.json").write_text(json.dumps(rows, indent=0))


if __name__ == "__main__":
    main()
